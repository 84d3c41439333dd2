//! Errors of an elector.

use std::time::Duration;

/// The reason why an elector could not be built (the checks of client-go's `NewLeaderElector`).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The namespace or the name of the lease is empty.
    #[error("the namespace or the name of the lease is empty; set both in LeaseLock::new")]
    NoLease,
    /// The candidate has no name.
    #[error("the candidate has no identity; set LeaseLock::identity to the name of the pod")]
    NoIdentity,
    /// The lease duration is too long for the field `leaseDurationSeconds` of a lease.
    #[error("the lease duration of {0:?} is too long; a lease has at most 2147483647 seconds")]
    LeaseDuration(Duration),
    /// The lease duration is not longer than the renew deadline, so there could be two leaders.
    #[error(
        "the lease duration ({lease_duration:?}) is not longer than the renew deadline ({renew_deadline:?}); \
         two candidates could lead"
    )]
    RenewDeadline {
        /// The lease duration.
        lease_duration: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
    },
    /// The renew deadline is not longer than 1.2 retry periods, so a leader could not repeat a
    /// renewal in time.
    #[error(
        "the renew deadline ({renew_deadline:?}) is not longer than 1.2 retry periods ({retry_period:?} each); \
         a leader could not repeat a renewal in time"
    )]
    RetryPeriod {
        /// The renew deadline.
        renew_deadline: Duration,
        /// The retry period.
        retry_period: Duration,
    },
    /// The retry period is 0.
    #[error("the retry period is 0; candidates would send requests without a pause")]
    NoRetryPeriod,
}

/// The reason why an elector has ended without being cancelled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionError {
    /// The lease was lost because the renew deadline came before a renewal was answered. A wall
    /// clock that is set forward, or a machine that resumes, can bring the deadline early.
    #[error(
        "lease {lease} was lost: the renew deadline came, by the monotonic or the wall clock, before \
         a renewal was answered; end the process, or campaign again with run_again"
    )]
    Expired {
        /// Namespace and name of the lease.
        lease: String,
    },
    /// The lease was lost because it was taken, changed by hand or deleted.
    #[error(
        "lease {lease} was lost: {}; end the process, or campaign again with run_again",
        match holder { Some(holder) => format!("its holder is {holder}"), None => "it was deleted, or has no holder".to_owned() }
    )]
    Replaced {
        /// Namespace and name of the lease.
        lease: String,
        /// The holder in the lease.
        holder: Option<String>,
    },
    /// The elector is already running.
    #[error("the elector is already running; build another one for another lease")]
    Running,
}

/// The error of a failed health check: a leader has not renewed its lease, but still runs
/// (client-go `HealthzAdaptor`).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "lease {lease} expired {overdue:?} ago, but work under it has not ended; restart the process"
)]
pub struct CheckError {
    pub(super) lease: String,
    pub(super) overdue: Duration,
}
