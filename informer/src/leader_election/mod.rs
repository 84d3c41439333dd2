//! Leader election: of several replicas of a program, one leads (client-go
//! `tools/leaderelection`).
//!
//! The candidates compete for a `Lease`. [`LeaderElector::run`] campaigns, runs the work of the
//! leader, and returns when the work returns, the elector is cancelled or the lease is lost.
//!
//! ```
//! use deltafifo_informer::leader_election::{LeaderElector, LeaseLock};
//! # use deltafifo_testkit::{ApiServer, Resource};
//! # use k8s_openapi::api::coordination::v1::Lease;
//! # use kube::core::{ApiResource, discovery::Scope};
//! # use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let leases = Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced);
//! # let server = ApiServer::builder().resource(leases).build();
//! # let client = server.client();
//! # server.apply(json!({
//! #     "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
//! #     "metadata": { "namespace": "shop", "name": "counter" },
//! # }))?;
//! let lock = LeaseLock::new("shop", "counter").identity("counter-7f9c-x2x4k");
//! let elector = LeaderElector::builder(client, lock).build()?;
//! elector
//!     .run(|term| async move {
//!         println!("leads in term {} of {}", term.transitions(), term.uid());
//!         let client = term.client(); // refuses writes once the term has ended
//! #       drop(client);
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! Two terms of a lease never overlap, provided that:
//!
//! - The clock of one candidate runs less than 1.5 times as fast as that of another. (1.5 is the
//!   lease duration divided by the renew deadline, with the default durations.)
//! - No machine is suspended in a way that stops both its monotonic clock and its wall clock. A
//!   leader stops at its deadline by either clock, so one running clock is enough.
//! - No user removes the holder's name by hand, or deletes the lease and creates one without a
//!   holder.
//! - etcd is not restored from a backup while a candidate runs: the restored lease may name a
//!   former holder.
//!
//! The clocks of two machines are never compared, and every write of the lease is conditional.
//!
//! A lease does not exclude a late write of a former leader, because the server does not check the
//! lease. A process may be stopped after it has checked the clock, and then sends the write when it
//! continues. So put a `resourceVersion` into a write that must not come from a former leader, or
//! use the term's fencing token: its [transitions](Term::transitions) and its [uid](Term::uid).
//!
//! # Differences from client-go
//!
//! | | client-go | here |
//! | --- | --- | --- |
//! | release | before the work has stopped, if a renewal failed | after the work has been dropped, and its requests are answered |
//! | release by a leader that has been replaced | can remove its successor from the lease | is not written |
//! | a leader that reads another's name | continues until its renew deadline | stops at once |
//! | renewals | each retry period | each third of the lease duration |
//! | candidates | poll each retry period | watch the lease, and poll only without a watch |
//! | a lease that does not exist | is created and held at once | is created, and held after the lease duration, because the holder of a deleted lease may still lead. To avoid this wait, apply a manifest of the lease without a `spec` |
//! | `ReleaseOnCancel` | off by default | on by default |
//! | `OnStartedLeading`, `OnStoppedLeading`, `OnNewLeader` | callbacks | the argument and the result of [`run`](LeaderElector::run), and [`leader`](LeaderElector::leader) |
//!
//! The tests in `e2e/client-go/client-go-elector` show the first three rows on client-go 0.37.
//!
//! # RBAC
//!
//! The service account needs the verbs `get` and `update` for the lease. Without `watch`,
//! candidates poll. `create` is needed only if the lease may not exist. A recorder of events needs
//! `create` and `patch` for `events` in the API group `events.k8s.io`.
//!
//! # Metrics
//!
//! | metric | kind | meaning |
//! | --- | --- | --- |
//! | `leader_election_master_status` | gauge | 1 if this process is the leader, and 0 otherwise |
//! | `leader_election_slowpath_total` | counter | Reads of the lease by its leader, after a conflict or a change by another |
//!
//! The label `name` is the name of the lease.

mod builder;
mod campaign;
mod error;
#[cfg(feature = "runtime")]
mod events;
mod lock;
mod metrics;
#[cfg(test)]
mod simulation;
mod term;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use kube::Client;
#[cfg(feature = "runtime")]
use kube::runtime::events::Recorder;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::lease::{Clock, FormerTerm, Hold, LeaseApi, LeaseState, Loss, Timing};
pub use crate::lease::{LeaseError, is_lost};
use crate::metrics::Named;
use crate::util::in_flight::WorkGuard;
pub use builder::LeaderElectorBuilder;
pub(crate) use builder::check_timing;
use campaign::{Campaign, CampaignEnd};
pub use error::{BuildError, CheckError, ElectionError};
#[cfg(feature = "runtime")]
use events::TermEvents;
pub use lock::LeaseLock;
use metrics::Metrics;
pub use term::Term;

type ElectionOnError = dyn Fn(&LeaseError) + Send + Sync;

/// A candidate for a lease (client-go `LeaderElector`). Clones are cheap, and all clones are the
/// same candidate.
#[derive(Clone)]
pub struct LeaderElector {
    shared: Arc<ElectionContext>,
    release_on_cancel: bool,
    cancelled: SharedFuture<BoxFuture<'static, ()>>,
    /// Locked while the elector runs, so that there is one run at a time.
    running: Arc<tokio::sync::Mutex<()>>,
}

/// The part of an elector that its campaigns share.
struct ElectionContext {
    /// The client of the terms.
    client: Client,
    /// Sends the requests of all campaigns, so that it knows which errors were reported.
    api: Arc<LeaseApi>,
    lock: LeaseLock,
    timing: Timing,
    clock: Clock,
    on_error: Arc<ElectionOnError>,
    metrics: Named<Metrics>,
    leader: watch::Sender<Option<String>>,
    #[cfg(feature = "runtime")]
    recorder: Option<Recorder>,
    /// The holds of the terms whose work has not ended.
    holds: Mutex<Vec<Hold>>,
}

impl ElectionContext {
    fn title(&self) -> String {
        format!("{}/{}", self.lock.namespace, self.lock.name)
    }

    /// Records the holder in this state of the lease as the current leader. `state` is `None` if
    /// the lease does not exist.
    fn observe(&self, state: Option<&LeaseState>) {
        let holder = state.and_then(|state| state.holder.as_deref());
        self.leader.send_if_modified(|leader| {
            let is_new = leader.as_deref() != holder;
            if is_new {
                *leader = holder.map(str::to_owned);
            }
            is_new
        });
    }
}

/// A guard that exists until the future of a leader's work has been dropped. It keeps the term's
/// hold in `ElectionContext::holds`, where [`LeaderElector::check`] finds it.
struct Leading<'s> {
    shared: &'s ElectionContext,
    _work: WorkGuard,
}

impl<'s> Leading<'s> {
    fn begin(shared: &'s ElectionContext, hold: &Hold) -> Self {
        let mut holds = shared.holds.lock();
        holds.retain(|hold| !hold.is_idle());
        holds.push(hold.clone());
        drop(holds);
        shared.metrics.record(|metrics| metrics.leads(true));
        Self { shared, _work: hold.continue_work() }
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.shared.metrics.record(|metrics| metrics.leads(false));
    }
}

/// A term whose lease was lost.
struct LostTerm {
    loss: Loss<Arc<str>>,
    hold: Hold,
    term: FormerTerm<Arc<str>>,
}

impl LeaderElector {
    /// Returns a builder of an elector. The elector and every [`Term::client`] send their requests
    /// through `client`. If its connection may be busy, set [another
    /// client](LeaderElectorBuilder::lease_client) for the lease, so that other requests do not
    /// delay the renewals.
    pub fn builder(client: Client, lock: LeaseLock) -> LeaderElectorBuilder {
        LeaderElectorBuilder::new(client, lock)
    }

    fn new(builder: LeaderElectorBuilder) -> Self {
        let LeaderElectorBuilder {
            client,
            lease_client,
            lock,
            timing,
            release_on_cancel,
            cancel,
            on_error,
            #[cfg(feature = "runtime")]
            recorder,
        } = builder;
        let metrics = Metrics::of(&lock.name);
        let lease_client = lease_client.unwrap_or_else(|| client.clone());
        let Timing { lease_duration, retry_period, .. } = timing;
        let name = (&*lock.namespace, &*lock.name);
        let api = LeaseApi::new(lease_client, name, lease_duration, retry_period);
        let shared = ElectionContext {
            client,
            api: Arc::new(api),
            lock,
            timing,
            clock: Clock::new(),
            on_error,
            metrics,
            leader: watch::Sender::new(None),
            #[cfg(feature = "runtime")]
            recorder,
            holds: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            release_on_cancel,
            cancelled: cancel.shared(),
            running: Arc::default(),
        }
    }

    /// Campaigns, and runs `lead` once as the leader. A separate task renews the lease while this
    /// future polls the future of `lead`. The future of `lead` is dropped when the term ends.
    ///
    /// Returns `Ok` after `lead` has returned, or the elector was
    /// [cancelled](LeaderElectorBuilder::cancel_on). The lease is then released, once all clones of
    /// the term are dropped and all requests of its client are answered. If this future is dropped,
    /// the work is dropped too, and the lease is not released.
    ///
    /// # Errors
    /// [`ElectionError::Expired`] or [`ElectionError::Replaced`] if the lease was lost. A program
    /// usually exits with this error, so that its pod restarts. [`ElectionError::Running`] if the
    /// elector runs already.
    ///
    /// # Panics
    /// If called outside of a tokio runtime. A panic of `lead` is not caught.
    pub async fn run<F, Fut>(&self, lead: F) -> Result<(), ElectionError>
    where
        F: FnOnce(Term) -> Fut,
        Fut: Future<Output = ()>,
    {
        let _running = self.running.try_lock().map_err(|_| ElectionError::Running)?;
        let identity = self.shared.lock.new_identity();
        match self.lead_once(lead, &identity, None).await {
            Some(lost) => Err(self.error(lost.loss)),
            None => Ok(()),
        }
    }

    /// Runs like [`run`](Self::run), but campaigns again after a loss, with a new identity. `lead`
    /// is called for each term. The elector first waits until the work of the lost term has ended,
    /// but not longer than the lease duration. Work that continues after that is like a former
    /// leader in another process, and [`check`](Self::check) returns an error.
    ///
    /// # Errors
    /// [`ElectionError::Running`] if the elector runs already.
    ///
    /// # Panics
    /// If called outside of a tokio runtime. A panic of `lead` is not caught.
    pub async fn run_again<F, Fut>(&self, mut lead: F) -> Result<(), ElectionError>
    where
        F: FnMut(Term) -> Fut,
        Fut: Future<Output = ()>,
    {
        let _running = self.running.try_lock().map_err(|_| ElectionError::Running)?;
        let mut former = None;
        loop {
            let identity = self.shared.lock.new_identity();
            let lost = self.lead_once(&mut lead, &identity, former).await;
            let Some(LostTerm { loss, hold, term }) = lost else { return Ok(()) };
            tracing::warn!(error = %self.error(loss), "leader election campaigns again");
            let ended = timeout(self.shared.timing.lease_duration, hold.wait_idle());
            let has_ended = tokio::select! {
                biased;
                () = self.cancelled.clone() => return Ok(()),
                ended = ended => ended.is_ok(),
            };
            if !has_ended {
                tracing::warn!(
                    lease = self.shared.title(),
                    "the lease was lost, but a clone of its term is alive or a request is not \
                     answered; the elector campaigns as another candidate"
                );
            }
            former = has_ended.then_some(term);
        }
    }

    /// Runs one campaign. For `former` see [`Campaign::start`]. Returns the term if its lease was
    /// lost, or `None` if the elector was cancelled or the work has returned.
    async fn lead_once<F, Fut>(
        &self,
        lead: F,
        identity: &str,
        former: Option<FormerTerm<Arc<str>>>,
    ) -> Option<LostTerm>
    where
        F: FnOnce(Term) -> Fut,
        Fut: Future<Output = ()>,
    {
        let mut campaign = Campaign::start(&self.shared, identity, former);
        let tenure = tokio::select! {
            biased;
            () = self.cancelled.clone() => {
                if self.release_on_cancel {
                    // The lease may have been claimed just now.
                    campaign.release();
                    campaign.ended().await;
                }
                return None;
            }
            tenure = campaign.elected() => tenure,
        };
        let hold = tenure.hold;
        tracing::info!(lease = self.shared.title(), identity, "leads");
        let claim = tenure.claim;
        if claim.transitions == i32::MAX {
            tracing::warn!(
                lease = self.shared.title(),
                "leaseTransitions has its largest value, so the fencing tokens of later terms do \
                 not grow; delete the lease while nobody leads: the next one has another uid"
            );
        }
        let leading = Leading::begin(&self.shared, &hold);
        #[cfg(feature = "runtime")]
        let events = TermEvents::begin(&self.shared, &claim, identity);
        let fence = (&*claim.uid, claim.transitions);
        let term = Term::new(&self.shared.client, hold.clone(), fence, identity.to_owned());
        let is_lost = tokio::select! {
            biased;
            () = hold.clone().ended() => true,
            () = self.cancelled.clone() => false,
            // `lead` is called only if the hold has not ended and the elector is not cancelled. The
            // work may return because it has noticed the loss first.
            is_held = async { lead(term).await; hold.is_held() } => !is_held,
        };
        // The work was dropped at the end of the statement. From here on its clones of the term
        // and its clients are refused.
        tenure.owner.end();
        drop(leading);
        let loss = if is_lost {
            // The campaign ends as well, unless an answer came at the moment of the deadline.
            match timeout(self.shared.timing.retry_period, campaign.ended()).await {
                Ok(CampaignEnd::Lost(loss)) => Some(loss),
                Ok(CampaignEnd::Gone) | Err(_) => Some(Loss::Deadline),
            }
        } else {
            if self.release_on_cancel {
                campaign.drain();
                tokio::select! {
                    biased;
                    () = self.work_ended(&hold) => {
                        campaign.release();
                        campaign.ended().await;
                    }
                    _ = campaign.ended() => {}
                }
            }
            None
        };
        #[cfg(feature = "runtime")]
        if let Some(events) = events {
            let published = events.end();
            tokio::select! {
                biased;
                () = published => {}
                () = self.cancelled.clone(), if loss.is_some() => {}
            }
        }
        let LeaseState { uid, transitions, .. } = claim;
        let term = FormerTerm { identity: identity.into(), uid, transitions };
        loss.map(|loss| LostTerm { loss, hold, term })
    }

    /// Waits until the work under a lease has ended. Logs a warning if that takes longer than the
    /// lease duration.
    async fn work_ended(&self, hold: &Hold) {
        loop {
            tokio::select! {
                biased;
                () = hold.wait_idle() => return,
                () = sleep(self.shared.timing.lease_duration) => tracing::warn!(
                    lease = self.shared.title(),
                    "the term has ended, but a clone of it is alive or a request is not answered; \
                     the elector waits for them"
                ),
            }
        }
    }

    fn error(&self, loss: Loss<Arc<str>>) -> ElectionError {
        let lease = self.shared.title();
        match loss {
            Loss::Deadline => ElectionError::Expired { lease },
            Loss::Replaced(holder) => {
                let holder = holder.map(|holder| holder.to_string());
                ElectionError::Replaced { lease, holder }
            }
        }
    }

    /// Returns a receiver of the holder in the lease, as this candidate last saw it. The value is
    /// `None` if the lease has no holder, does not exist, or has not been read yet (client-go
    /// `GetLeader`, `OnNewLeader`). The holder may have stopped since, so use the value for display
    /// only.
    #[doc(alias = "GetLeader")]
    #[doc(alias = "OnNewLeader")]
    #[must_use]
    pub fn leader(&self) -> watch::Receiver<Option<String>> {
        self.shared.leader.subscribe()
    }

    /// Returns an error if this process leads with an expired lease. Use it in a liveness probe
    /// (client-go `HealthzAdaptor`). This can happen because the elector cannot drop work that
    /// blocks its thread. A candidate that does not lead is always healthy. A readiness probe
    /// should report that the informers have synced instead.
    ///
    /// # Errors
    /// [`CheckError`] if work under a lease still runs, or is not dropped, `tolerance` after the
    /// lease has expired. A clone of a [`Term`] counts as such work, and so does an unanswered
    /// mutating request of its [client](Term::client).
    #[doc(alias = "HealthzAdaptor")]
    pub fn check(&self, tolerance: Duration) -> Result<(), CheckError> {
        let ElectionContext { timing, clock, holds, .. } = &*self.shared;
        // By the monotonic clock alone, so that a step of the wall clock does not end a process.
        let now = clock.now().monotonic;
        let expires_after = timing.lease_duration.saturating_sub(timing.renew_deadline);
        let mut holds = holds.lock();
        holds.retain(|hold| !hold.is_idle());
        let overdue = holds.iter().filter_map(|hold| {
            now.checked_sub(hold.deadline().monotonic.saturating_add(expires_after))
        });
        match overdue.max().filter(|overdue| *overdue >= tolerance) {
            Some(overdue) => Err(CheckError { lease: self.shared.title(), overdue }),
            None => Ok(()),
        }
    }
}
