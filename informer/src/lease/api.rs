//! The requests of a candidate.

use std::sync::Arc;
use std::time::Duration;

use async_stream::stream;
use futures_util::{Stream, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ObjectMeta, PostParams, WatchEvent, WatchParams};
use tokio::time::{Instant, sleep, timeout};

use super::client::{LeaseClient, LeaseError};
use super::object::{LeaseFields, with_holder};
use super::protocol::{Answer, LeaseRequest, Record};

/// A state of the lease, and the object that it was read from.
pub(crate) type LeaseState = Record<Arc<str>, Arc<Lease>>;

/// An item of a watch of the lease.
pub(crate) enum Watched {
    /// The watch has begun.
    Open,
    /// The lease was created or changed, or deleted (`None`).
    Changed(Option<LeaseState>),
    /// The watch failed, or could not be opened. It is opened again later.
    Failed(LeaseError),
}

/// A sender of one candidate's requests for the lease.
pub(crate) struct LeaseApi {
    leases: LeaseClient,
    name: String,
    lease_duration: Duration,
    /// The shortest time between the openings of two watches.
    retry_period: Duration,
}

impl LeaseApi {
    pub(crate) fn new(
        client: kube::Client,
        (namespace, name): (&str, &str),
        lease_duration: Duration,
        retry_period: Duration,
    ) -> Self {
        Self {
            leases: LeaseClient::new(client, namespace, retry_period),
            name: name.to_owned(),
            lease_duration,
            retry_period,
        }
    }

    /// Sends a request. A conflict is an answer, not an error.
    ///
    /// # Errors
    /// [`LeaseError`] if the request failed for another reason, or was not answered within the
    /// retry period. The caller must then pass [`Answer::Unclear`] to the protocol.
    pub(crate) async fn send(
        &self,
        request: LeaseRequest<Arc<str>, Arc<Lease>>,
    ) -> Result<Answer<Arc<str>, Arc<Lease>>, LeaseError> {
        let (api, post) = (&self.leases.api, PostParams::default());
        let verb = request.verb();
        let answer = async {
            match request {
                LeaseRequest::Read => api.get_opt(&self.name).await.map(|lease| lease.map(state)),
                LeaseRequest::Create { holder } => {
                    api.create(&post, &self.created(&holder)).await.map(state).map(Some)
                }
                LeaseRequest::Replace { base, holder, transitions } => {
                    let lease = self.replaced(&base.body, holder.as_deref(), transitions);
                    api.replace(&self.name, &post, &lease).await.map(state).map(Some)
                }
            }
        };
        match self.leases.answer(verb, &self.name, answer).await {
            Ok(state) => Ok(Answer::State(state)),
            Err(error) if error.is_conflict() => {
                self.leases.succeeded(verb);
                Ok(Answer::Conflict)
            }
            Err(error) => Err(error),
        }
    }

    /// Watches the lease without end. The first events of each watch are the present state. If a
    /// watch cannot be opened, the next attempt follows after the lease duration. If an open watch
    /// ends, fails or is silent for three lease durations, a new one is requested, at the earliest
    /// one retry period after the request for the old one.
    pub(crate) fn watch(&self) -> impl Stream<Item = Watched> {
        stream! {
            loop {
                let began = Instant::now();
                let params = WatchParams::default().fields(&format!("metadata.name={}", self.name));
                let watch = self.leases.api.watch(&params, "");
                let mut events = match self.leases.answer("watch", &self.name, watch).await {
                    Ok(events) => Box::pin(events),
                    Err(error) => {
                        yield Watched::Failed(error);
                        sleep(self.lease_duration).await;
                        continue;
                    }
                };
                yield Watched::Open;
                loop {
                    // The holder renews three times per lease duration, so the connection of a
                    // watch that is silent for longer is probably lost.
                    let silence = self.lease_duration.saturating_mul(3);
                    let Ok(event) = timeout(silence, events.try_next()).await else { break };
                    match event {
                        Ok(Some(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                            yield Watched::Changed(Some(state(lease)));
                        }
                        Ok(Some(WatchEvent::Deleted(_))) => yield Watched::Changed(None),
                        Ok(Some(WatchEvent::Bookmark(_))) => {}
                        Ok(Some(WatchEvent::Error(status))) => {
                            yield Watched::Failed(self.failed(kube::Error::Api(status)));
                            break;
                        }
                        Ok(None) => break,
                        Err(source) => {
                            yield Watched::Failed(self.failed(source));
                            break;
                        }
                    }
                }
                // A server that ends each watch at once must not be flooded.
                sleep(self.retry_period.saturating_sub(began.elapsed())).await;
            }
        }
    }

    /// Records a failure. Returns whether it must be reported: no error like it was reported within
    /// a minute, or since the last request with its verb that succeeded.
    pub(crate) fn must_report(&self, error: &LeaseError) -> bool {
        self.leases.must_report(error)
    }

    fn failed(&self, source: kube::Error) -> LeaseError {
        self.leases.failed("watch", &self.name, source)
    }

    fn created(&self, holder: &str) -> Lease {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        self.replaced(&Lease { metadata, spec: None }, Some(holder), 0)
    }

    fn replaced(&self, base: &Lease, holder: Option<&str>, transitions: i32) -> Lease {
        with_holder(base, holder, transitions, self.lease_duration)
    }
}

/// Returns the state of a lease.
fn state(lease: Lease) -> LeaseState {
    let LeaseFields { version, uid, holder, transitions, duration } = LeaseFields::of(&lease);
    Record {
        version: version.into(),
        uid: uid.into(),
        holder: holder.map(Arc::from),
        transitions,
        duration,
        body: Arc::new(lease),
    }
}
