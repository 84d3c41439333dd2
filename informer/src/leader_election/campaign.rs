//! The task of a campaign, which runs the protocol: it sends requests, watches the lease and
//! renews it, whatever the work under the lease does.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::panics::ignore_panic;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::metrics::Metrics;
use super::{ElectionContext, LeaseError};
use crate::lease::{
    Answer, CandidateStep, FormerTerm, Hold, HoldOwner, LeaseApi, LeaseState, Loss, Protocol,
    Timing, Watched,
};
use crate::util::task;

/// A campaign: one candidacy for the lease, from its start until the lease is lost or the campaign
/// is stopped. It runs in a task of its own, which is aborted when the `Campaign` is dropped.
pub(super) struct Campaign {
    elected: oneshot::Receiver<Tenure>,
    orders: watch::Sender<Order>,
    task: JoinHandle<CampaignEnd>,
}

/// The lease of a candidate that was elected.
pub(super) struct Tenure {
    pub(super) hold: Hold,
    pub(super) owner: HoldOwner,
    /// The lease as the candidate has written it to claim it.
    pub(super) claim: LeaseState,
}

/// The end of a campaign.
#[derive(Debug)]
pub(super) enum CampaignEnd {
    Lost(Loss<Arc<str>>),
    /// The campaign was stopped, and does not hold the lease.
    Gone,
}

/// An order to the campaign's task. Orders are given in the sequence of the variants; `Drain` may
/// be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Campaign,
    /// The work under the lease is ending. The lease is renewed until the work has ended.
    Drain,
    Release,
}

impl Campaign {
    /// Starts a campaign. The work of `former` must have ended, because its lease counts as free.
    pub(super) fn start(
        shared: &Arc<ElectionContext>,
        identity: &str,
        former: Option<FormerTerm<Arc<str>>>,
    ) -> Self {
        let (tenure, elected) = oneshot::channel();
        let (orders, received) = watch::channel(Order::Campaign);
        let runner = Runner {
            protocol: Protocol::new(shared.timing, identity.into(), former),
            api: Arc::clone(&shared.api),
            shared: Arc::clone(shared),
            elected: Some(tenure),
            owner: None,
            logged_wait: false,
        };
        let span = tracing::info_span!("leader_election", lease = shared.title(), identity);
        let task = tokio::spawn(runner.run(received).instrument(span));
        Self { elected, orders, task }
    }

    /// Waits until the candidate is elected.
    pub(super) async fn elected(&mut self) -> Tenure {
        if let Ok(tenure) = (&mut self.elected).await {
            return tenure;
        }
        // The task ends before an election only if it panics, or with the runtime.
        self.ended().await;
        std::future::pending().await
    }

    /// Announces that the work under the lease is ending.
    pub(super) fn drain(&self) {
        self.orders.send_replace(Order::Drain);
    }

    /// Ends the campaign, and releases the lease if it is held. All work under it must have ended.
    pub(super) fn release(&self) {
        self.orders.send_replace(Order::Release);
    }

    /// Waits until the campaign has ended: the lease is lost, or the campaign was stopped.
    pub(super) async fn ended(&mut self) -> CampaignEnd {
        task::ended(&mut self.task).await
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Object = k8s_openapi::api::coordination::v1::Lease;
type Sent = Result<Answer<Arc<str>, Arc<Object>>, LeaseError>;

/// A request in flight.
struct RequestInFlight {
    number: u64,
    answer: BoxFuture<'static, Sent>,
}

struct Runner {
    protocol: Protocol<Arc<str>, Arc<Object>>,
    api: Arc<LeaseApi>,
    shared: Arc<ElectionContext>,
    elected: Option<oneshot::Sender<Tenure>>,
    /// Set while the lease is held for work.
    owner: Option<HoldOwner>,
    /// Whether the wait for a lease that is not free was logged.
    logged_wait: bool,
}

impl Runner {
    async fn run(mut self, mut orders: watch::Receiver<Order>) -> CampaignEnd {
        let api = Arc::clone(&self.api);
        let mut watched = pin!(api.watch());
        let mut in_flight: Option<RequestInFlight> = None;
        let clock = self.shared.clock;
        loop {
            let mut wake = None;
            match self.protocol.next(clock.now()) {
                CandidateStep::Send { number, request } => {
                    if request.verb() == "get" && self.protocol.held().is_some() {
                        self.shared.metrics.record(Metrics::slow_path);
                    }
                    let api = Arc::clone(&self.api);
                    let answer = async move { api.send(request).await }.boxed();
                    in_flight = Some(RequestInFlight { number, answer });
                }
                CandidateStep::Wait(until) => wake = until.map(|until| until + self.jitter()),
                CandidateStep::Lost(loss) => return CampaignEnd::Lost(loss),
                CandidateStep::Gone => return CampaignEnd::Gone,
            }
            // The answer to a claim decides whether there is a lease to release.
            let takes_orders = !self.protocol.is_claiming();
            // In a fixed order, so that a simulation can be repeated.
            tokio::select! {
                biased;
                Ok(()) = orders.changed(), if takes_orders => match *orders.borrow_and_update() {
                    Order::Campaign => {}
                    Order::Drain => self.protocol.stop(),
                    Order::Release => {
                        self.protocol.stop();
                        self.protocol.work_ended(clock.now());
                    }
                },
                answer = answer(&mut in_flight) => {
                    if let Some(RequestInFlight { number, .. }) = in_flight.take() {
                        self.answered(number, answer);
                    }
                }
                Some(event) = watched.next() => self.watched(event),
                () = clock.sleep_until(wake) => {}
            }
            self.publish();
            self.log_wait();
        }
    }

    /// Logs once that the candidate waits for a lease that is not free, and for how long.
    fn log_wait(&mut self) {
        if self.logged_wait {
            return;
        }
        if let Some((lease, expires_at)) = self.protocol.awaits() {
            self.logged_wait = true;
            let expires_in = expires_at.saturating_sub(self.shared.clock.now().monotonic);
            tracing::info!(
                holder = lease.holder.as_deref(),
                ?expires_in,
                "candidate waits until the lease is released, or is not renewed for `expires_in`"
            );
        }
    }

    /// Returns a random delay for a candidate, so that not all of them claim at once.
    fn jitter(&self) -> Duration {
        if self.protocol.is_foreign() {
            self.shared.timing.retry_period.mul_f64(fastrand::f64() / 4.0)
        } else {
            Duration::ZERO
        }
    }

    fn answered(&mut self, number: u64, answer: Sent) {
        let answer = match answer {
            Ok(answer) => {
                // The answer to an abandoned attempt can be older than what the watch has shown.
                if let Answer::State(state) = &answer
                    && self.protocol.is_in_progress(number)
                {
                    self.shared.observe(state.as_ref());
                }
                answer
            }
            Err(error) => {
                self.report(&error);
                Answer::Unclear
            }
        };
        self.protocol.answered(self.shared.clock.now(), number, answer);
    }

    fn watched(&mut self, event: Watched) {
        match event {
            Watched::Open => self.protocol.set_watching(true),
            Watched::Changed(state) => {
                self.shared.observe(state.as_ref());
                self.protocol.observed(self.shared.clock.now(), state);
            }
            Watched::Failed(error) => {
                self.protocol.set_watching(false);
                self.report(&error);
            }
        }
    }

    /// Reports an error, unless one like it was reported within a minute, or since the last request
    /// with its verb that succeeded.
    fn report(&mut self, error: &LeaseError) {
        if self.api.must_report(error) {
            // The function is user code.
            if ignore_panic(|| (self.shared.on_error)(error)).is_none() {
                tracing::error!(%error, "error handler panicked; the campaign continues");
            }
        }
    }

    /// Ends the hold if the protocol says that the lease is not held; otherwise begins the hold, or
    /// moves its deadline.
    fn publish(&mut self) {
        let Some((deadline, record)) = self.protocol.held() else {
            self.owner = None;
            return;
        };
        if let Some(owner) = &self.owner {
            owner.extend(deadline);
        } else if let Some(elected) = self.elected.take() {
            let Timing { retry_period, .. } = self.shared.timing;
            let (owner, hold) = Hold::new(deadline, self.shared.clock, retry_period);
            self.owner = Some(owner.clone());
            // Fails if the elector was dropped, which also ends this task.
            let _ = elected.send(Tenure { hold, owner, claim: record.clone() });
        }
    }
}

/// Waits for the answer to the request in flight, or for ever if there is none.
async fn answer(in_flight: &mut Option<RequestInFlight>) -> Sent {
    match in_flight {
        Some(in_flight) => (&mut in_flight.answer).await,
        None => std::future::pending().await,
    }
}
