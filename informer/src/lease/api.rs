//! The requests of a candidate.

use std::sync::Arc;
use std::time::Duration;

use async_stream::stream;
use futures_util::{Stream, TryStreamExt};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use tokio::time::{Instant, sleep, timeout};

use super::protocol::{Answer, LeaseRequest, Record};

/// A state of the lease, and the object that it was read from.
pub(crate) type LeaseState = Record<Arc<str>, Arc<Lease>>;

/// A failed request of an election. The election continues: requests are repeated after the retry
/// period, and a lease that cannot be watched is read once per retry period.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The server refused the request, or the connection failed.
    #[error(
        "cannot {verb} leases.coordination.k8s.io {lease}; {}",
        if is_forbidden(source) { "grant this verb to the account" } else { "the request is repeated" }
    )]
    Request {
        /// The verb, as in a role: `get`, `create`, `update` or `watch`.
        verb: &'static str,
        /// Namespace and name of the lease.
        lease: String,
        /// The error of the client.
        source: kube::Error,
    },
    /// The server did not answer within the retry period. The request may have been applied.
    #[error(
        "no answer to {verb} of leases.coordination.k8s.io {lease} in {limit:?}; the request is repeated"
    )]
    Timeout {
        /// The verb, as in a role.
        verb: &'static str,
        /// Namespace and name of the lease.
        lease: String,
        /// The retry period.
        limit: Duration,
    },
}

impl LeaseError {
    /// Returns the verb, and the status code if the server answered.
    pub(crate) fn kind(&self) -> (&'static str, Option<u16>) {
        match self {
            Self::Request { verb, source: kube::Error::Api(status), .. } => {
                (verb, Some(status.code))
            }
            Self::Request { verb, .. } | Self::Timeout { verb, .. } => (verb, None),
        }
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

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
    api: Api<Lease>,
    namespace: String,
    name: String,
    lease_duration: Duration,
    /// The time limit of a request, and the shortest time between the openings of two watches.
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
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
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
        let post = PostParams::default();
        let verb = request.verb();
        let answer = async {
            match request {
                LeaseRequest::Read => {
                    self.api.get_opt(&self.name).await.map(|lease| lease.map(state))
                }
                LeaseRequest::Create { holder } => {
                    self.api.create(&post, &self.created(&holder)).await.map(state).map(Some)
                }
                LeaseRequest::Replace { base, holder, transitions } => {
                    let lease = self.replaced(&base.body, holder.as_deref(), transitions);
                    self.api.replace(&self.name, &post, &lease).await.map(state).map(Some)
                }
            }
        };
        match timeout(self.retry_period, answer).await {
            Ok(Ok(state)) => Ok(Answer::State(state)),
            Ok(Err(kube::Error::Api(status))) if is_conflict(verb, status.code) => {
                Ok(Answer::Conflict)
            }
            Ok(Err(source)) => Err(self.failed(verb, source)),
            Err(_) => Err(self.unanswered(verb)),
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
                let opened = timeout(self.retry_period, self.api.watch(&params, "")).await;
                let mut events = match opened {
                    Ok(Ok(events)) => Box::pin(events),
                    failed => {
                        yield Watched::Failed(match failed {
                            Ok(Err(source)) => self.failed("watch", source),
                            _ => self.unanswered("watch"),
                        });
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
                            yield Watched::Failed(self.failed("watch", kube::Error::Api(status)));
                            break;
                        }
                        Ok(None) => break,
                        Err(source) => {
                            yield Watched::Failed(self.failed("watch", source));
                            break;
                        }
                    }
                }
                // A server that ends each watch at once must not be flooded.
                sleep(self.retry_period.saturating_sub(began.elapsed())).await;
            }
        }
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> LeaseError {
        LeaseError::Request { verb, lease: self.title(), source }
    }

    fn unanswered(&self, verb: &'static str) -> LeaseError {
        LeaseError::Timeout { verb, lease: self.title(), limit: self.retry_period }
    }

    fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn created(&self, holder: &str) -> Lease {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        self.replaced(&Lease { metadata, spec: None }, Some(holder), 0)
    }

    /// Returns `base` with this holder, or without a holder if `holder` is `None`, renewed now. If
    /// the holder and `transitions` are those of `base`, its acquire time stays. The labels, and
    /// everything else that the election does not own, always stay.
    fn replaced(&self, base: &Lease, holder: Option<&str>, transitions: i32) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before = base.spec.clone().unwrap_or_default();
        let is_renewal = before.lease_transitions == Some(transitions)
            && before.holder_identity.as_deref() == holder;
        let acquired = if is_renewal { before.acquire_time.clone() } else { Some(now.clone()) };
        let spec = LeaseSpec {
            holder_identity: Some(holder.unwrap_or_default().to_owned()),
            lease_duration_seconds: duration_seconds(self.lease_duration),
            lease_transitions: Some(transitions),
            acquire_time: acquired,
            renew_time: Some(now),
            ..before
        };
        Lease { metadata: base.metadata.clone(), spec: Some(spec) }
    }
}

/// Returns the `leaseDurationSeconds` of this lease duration, rounded up, so that others wait at
/// least as long as the lease is held. Returns `None` if the field cannot contain it.
pub(crate) fn duration_seconds(duration: Duration) -> Option<i32> {
    let started = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs().checked_add(started)?).ok()
}

/// Returns whether a write was refused because the lease is in another state. An update gets 404 if
/// the lease was deleted.
fn is_conflict(verb: &str, code: u16) -> bool {
    matches!((verb, code), ("create" | "update", 409) | ("update", 404))
}

/// Returns the state of a lease. A missing or invalid number counts as 0, and a missing text as
/// empty. An empty holder counts as no holder.
fn state(lease: Lease) -> LeaseState {
    let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        version: text(&lease.metadata.resource_version),
        uid: text(&lease.metadata.uid),
        holder: holder.filter(|holder| !holder.is_empty()).map(Arc::from),
        transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or_default(),
        duration: Duration::from_secs(seconds.unwrap_or_default()),
        body: Arc::new(lease),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration_seconds;

    #[test]
    fn lease_duration_is_rounded_up_to_seconds() {
        assert_eq!(duration_seconds(Duration::from_secs(15)), Some(15));
        assert_eq!(duration_seconds(Duration::new(15, 1)), Some(16));
        assert_eq!(duration_seconds(Duration::from_secs(1 << 31)), None);
        assert_eq!(duration_seconds(Duration::MAX), None);
    }
}
