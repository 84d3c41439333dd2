//! The durations of an election, states of the lease, and the requests, answers and steps of a
//! candidate.

use std::time::Duration;

/// The durations of an election, with client-go's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Timing {
    /// The time for which other candidates wait before they claim a lease that is not renewed.
    pub(crate) lease_duration: Duration,
    /// The time for which a holder holds the lease without another renewal.
    pub(crate) renew_deadline: Duration,
    /// The time between attempts after a failure, and the time limit of a request.
    pub(crate) retry_period: Duration,
}

/// A state of the lease. `T` is the type of names and versions. `B` is the object itself, which the
/// protocol carries and does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record<T, B> {
    pub(crate) version: T,
    pub(crate) uid: T,
    /// `None` if the lease is free.
    pub(crate) holder: Option<T>,
    pub(crate) transitions: i32,
    /// The lease duration of the holder; 0 if it is missing or invalid.
    pub(crate) duration: Duration,
    pub(crate) body: B,
}

/// A request to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaseRequest<T, B> {
    /// Reads the newest version.
    Read,
    /// Creates the lease with this holder and no transitions.
    Create { holder: T },
    /// Replaces this version of the lease.
    Replace { base: Record<T, B>, holder: Option<T>, transitions: i32 },
}

impl<T, B> LeaseRequest<T, B> {
    /// Returns the verb of the request, as in a role.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Read => "get",
            Self::Create { .. } => "create",
            Self::Replace { .. } => "update",
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer<T, B> {
    /// The state that was read or written, or `None` if the lease does not exist.
    State(Option<Record<T, B>>),
    /// The write was refused because the lease has another version, exists already, or is deleted.
    Conflict,
    /// The request failed or was not answered in time, and may still be applied.
    Unclear,
}

/// The next step of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CandidateStep<T, B> {
    /// Send this request, and pass its answer to [`answered`](super::Protocol::answered) with its
    /// number.
    Send { number: u64, request: LeaseRequest<T, B> },
    /// Wait for an input, or until this time of the monotonic clock.
    Wait(Option<Duration>),
    /// The lease is lost. No request follows.
    Lost(Loss<T>),
    /// The candidate has stopped, and does not hold the lease. No request follows.
    Gone,
}

/// The reason why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Loss<T> {
    /// No renewal was answered before the deadline.
    Deadline,
    /// The lease was taken by this holder, or was edited or deleted.
    Replaced(Option<T>),
}

/// A term of an earlier campaign of the same process, whose work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FormerTerm<T> {
    pub(crate) identity: T,
    pub(crate) uid: T,
    pub(crate) transitions: i32,
}

impl<T: Eq> FormerTerm<T> {
    /// Returns whether `record` is a state of the lease since the claim of this term, and no other
    /// candidate has claimed it.
    pub(super) fn is_of<B>(&self, record: &Record<T, B>) -> bool {
        record.holder.as_ref() == Some(&self.identity)
            && record.uid == self.uid
            && record.transitions == self.transitions
    }
}
