//! The builder of an elector.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::Client;
#[cfg(feature = "runtime")]
use kube::runtime::events::Recorder;

use super::error::BuildError;
use super::lock::LeaseLock;
use super::{ElectionOnError, LeaderElector, LeaseError};
use crate::error_chain;
use crate::lease::{Timing, duration_seconds};

/// A builder of a [`LeaderElector`] (client-go `LeaderElectionConfig`).
#[doc(alias = "LeaderElectionConfig")]
#[must_use = "build() makes the elector"]
pub struct LeaderElectorBuilder {
    pub(super) client: Client,
    pub(super) lease_client: Option<Client>,
    pub(super) lock: LeaseLock,
    pub(super) timing: Timing,
    pub(super) release_on_cancel: bool,
    pub(super) cancel: BoxFuture<'static, ()>,
    pub(super) on_error: Arc<ElectionOnError>,
    #[cfg(feature = "runtime")]
    pub(super) recorder: Option<Recorder>,
}

impl LeaderElectorBuilder {
    pub(super) fn new(client: Client, lock: LeaseLock) -> Self {
        Self {
            client,
            lease_client: None,
            lock,
            timing: Timing {
                lease_duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry_period: Duration::from_secs(2),
            },
            release_on_cancel: true,
            cancel: std::future::pending().boxed(),
            on_error: Arc::new(|error| {
                tracing::warn!(
                    error = error_chain(error),
                    "a request of the leader election failed; the election continues"
                );
            }),
            #[cfg(feature = "runtime")]
            recorder: None,
        }
    }

    /// Sets the client for the requests for the lease. By default the elector and the terms share
    /// one client. If that client has one connection, or limits the number of requests in flight,
    /// slow answers to a term can delay renewals until the lease is lost. kube's clients do neither
    /// by default.
    pub fn lease_client(mut self, client: Client) -> Self {
        self.lease_client = Some(client);
        self
    }

    /// Sets the lease duration: if a lease is not renewed, other candidates wait for this time
    /// before they claim it. The default is 15 s. In the lease it is rounded up to seconds.
    /// Candidates may have different lease durations: each waits for its own one or the one in
    /// the lease, whichever is longer.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// Sets the time after which a leader stops if no renewal was answered, counted from the time
    /// when the last answered renewal was *sent*. The default is 10 s. Two candidates can lead at
    /// the same time only if the clock of one is faster than that of the other by a factor of the
    /// lease duration divided by this deadline, by default 1.5.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// Sets the time limit of each request, and the pause before a failed request is repeated. The
    /// default is 2 s. A candidate that cannot watch the lease reads it once in each such period.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    /// Sets whether the lease is released when the elector is cancelled, or when its work returns.
    /// The default is true (in client-go false). Without a release, other candidates wait for the
    /// lease duration.
    pub fn release_on_cancel(mut self, release: bool) -> Self {
        self.release_on_cancel = release;
        self
    }

    /// Stops the elector when `trigger` resolves. A leader's work is dropped, and the lease is
    /// released once the work has ended. To let work end gracefully, shut it down instead: the
    /// elector ends when its work returns. The last call wins.
    pub fn cancel_on(mut self, trigger: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cancel = trigger.boxed();
        self
    }

    /// Sets a function that is called for each error of a request. By default errors are logged. If
    /// requests fail repeatedly with the same verb and status code, the failure is reported once,
    /// and again only after a request with this verb has succeeded, at most once a minute.
    pub fn on_error(mut self, on_error: impl Fn(&LeaseError) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(on_error);
        self
    }

    /// Publishes an event about the lease when this candidate begins to lead, and when it stops
    /// (client-go `ResourceLockConfig.EventRecorder`), with the reason `LeaderElection`. By default
    /// no event is published.
    ///
    /// The first event does not delay the work. After a term, the elector waits at most a retry
    /// period for the answers before it returns or campaigns again. If the lease was lost, a
    /// cancellation ends this wait. An error is logged, and has no other effect. Each term has
    /// events of its own: their reference to the lease contains the `resourceVersion` of the claim.
    ///
    /// ```
    /// use deltafifo_informer::leader_election::{BuildError, LeaderElector, LeaseLock};
    /// use kube::Client;
    /// use kube::runtime::events::{Recorder, Reporter};
    ///
    /// fn elector(client: Client, pod: String) -> Result<LeaderElector, BuildError> {
    ///     let instance = Some(pod.clone());
    ///     let reporter = Reporter { controller: "counter".to_owned(), instance };
    ///     let lock = LeaseLock::new("shop", "counter").identity(pod);
    ///     LeaderElector::builder(client.clone(), lock)
    ///         .event_recorder(Recorder::new(client, reporter))
    ///         .build()
    /// }
    /// ```
    #[cfg(feature = "runtime")]
    pub fn event_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Creates the elector. Sends no request.
    ///
    /// # Errors
    /// If a name is empty, or the durations are not safe: see [`BuildError`].
    pub fn build(self) -> Result<LeaderElector, BuildError> {
        if self.lock.namespace.is_empty() || self.lock.name.is_empty() {
            return Err(BuildError::NoLease);
        }
        if self.lock.identity.is_empty() {
            return Err(BuildError::NoIdentity);
        }
        check_timing(self.timing)?;
        Ok(LeaderElector::new(self))
    }
}

/// Checks that the durations are safe: that there is one holder at a time, which can renew its
/// lease in time.
pub(crate) fn check_timing(timing: Timing) -> Result<(), BuildError> {
    let Timing { lease_duration, renew_deadline, retry_period } = timing;
    if duration_seconds(lease_duration).is_none() {
        return Err(BuildError::LeaseDuration(lease_duration));
    }
    if lease_duration <= renew_deadline {
        return Err(BuildError::RenewDeadline { lease_duration, renew_deadline });
    }
    if retry_period.is_zero() {
        return Err(BuildError::NoRetryPeriod);
    }
    if renew_deadline.saturating_mul(5) <= retry_period.saturating_mul(6) {
        return Err(BuildError::RetryPeriod { renew_deadline, retry_period });
    }
    Ok(())
}
