//! The protocol of a candidate for a lease, without I/O: it receives times and inputs, and returns
//! requests.
//!
//! ```text
//!                 free, or expired                written
//!      Foreign ----------------------> Claiming ----------> Live --stop--> Draining
//!         ^                               |                   |               | work has ended
//!         +--- conflict, or no answer ----+                   |               v
//!                                                             |           Releasing --> Gone
//!                               deadline, or another holds it v               |
//!                                                            Lost <-----------+
//! ```
//!
//! | state | the lease is held for work | next request |
//! | --- | --- | --- |
//! | `Foreign` | no | a read, if the lease is not known; a creation, if it does not exist; a claim, if it is free |
//! | `Claiming` | no | none: the claim is in flight |
//! | `Live`, `Draining` | until the deadline | a renewal each third of the lease duration, or each half of the renew deadline if that is shorter; a read after a conflict |
//! | `Releasing` | no: all work has ended | the release; a read after a conflict, or without an answer |
//! | `Lost`, `Gone` | no | none |
//!
//! # Rules
//!
//! 1. Every write contains the version that it replaces, so the holders of a lease form one
//!    sequence.
//! 2. A candidate becomes the holder only by an answer to its own write. It holds the lease from
//!    then until its *deadline*: the time when that write was *sent*, plus the renew deadline. A
//!    read never makes a candidate the holder, and never moves a deadline.
//! 3. An answer counts only for the attempt in progress.
//! 4. The lease of another holder has expired if its version has not changed for the lease duration
//!    since this candidate first saw the version, by the monotonic clock of this candidate. The
//!    duration is the larger of the candidate's own and the one in the lease. The candidate never
//!    reads times that others wrote.
//! 5. A lease without a holder is free. A holder removes its name only after its work has ended.
//! 6. If the lease does not exist, a candidate creates it at once, with its own name as the holder.
//!    But it does not hold this lease: like every other candidate, it waits until the lease has
//!    expired. The holder of a deleted lease may still be at work, and the creation may have been
//!    delayed past the creation, the claim and the deletion of another lease.
//! 7. A claim without an answer does not count either: if a read shows the claim, the candidate
//!    waits until this lease has expired. Each claim increments `leaseTransitions`, also if the
//!    holder was the same.
//! 8. The lease of an earlier term of the same process is free, because the work of that term has
//!    ended. The process recognises this lease by holder, uid and transitions together. A lease
//!    that has only the holder in common may come from a delayed creation: then another candidate
//!    may have claimed an earlier lease, which was deleted, and may still be at work.
//!
//! # Why there is one holder
//!
//! By rule 1 a holder is replaced by a write that contains the version of the holder's last write.
//! An observer sends the replacing write a whole lease duration after it first saw that version,
//! and it can see the version only after the holder has sent its last write. By then the holder has
//! passed its deadline, as long as the lease duration by the observer's clock takes longer than the
//! renew deadline by the holder's. With client-go's durations of 15 and 10 s the rates of the
//! clocks may differ by a factor of less than 1.5.
//!
//! There can be two holders if a person removes the holder's name, replaces the lease by one
//! without a holder, or deletes the lease or its duration while candidates with a shorter lease
//! duration wait. A suspended machine does not cause this, unless its wall clock stops as well.

#[cfg(test)]
mod defects;
#[cfg(test)]
mod explore;
#[cfg(test)]
mod mutants;
mod seen;
#[cfg(test)]
mod tests;
mod types;

use std::time::Duration;

use super::clocks::Clocks;
#[cfg(test)]
pub(crate) use mutants::{CHOSEN_MUTANT, Mutant};
use seen::Seen;
pub(crate) use types::{Answer, CandidateStep, FormerTerm, LeaseRequest, Loss, Record, Timing};

/// A [`mutant!`] line marks the place of a deliberate defect, and expands to nothing outside of
/// tests. Skip these lines when you read the code.
macro_rules! mutant {
    ($($defect:tt)*) => {
        $crate::util::mutant::mutant_of!([$crate::lease::protocol::mutants] $($defect)*);
    };
}

/// A candidate for a lease: a state machine that takes inputs and the time, and returns the next
/// [`CandidateStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Protocol<T, B> {
    timing: Timing,
    identity: T,
    former: Option<FormerTerm<T>>,
    state: State<T, B>,
    /// The attempt in progress.
    flight: Option<Flight>,
    /// The number of the last attempt.
    attempts: u64,
    /// No request is sent before this time of the monotonic clock.
    not_before: Duration,
    /// Whether a watch reports changes, so that no polling is needed.
    is_watching: bool,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State<T, B> {
    Foreign(Seen<T, B>),
    Claiming,
    Live(HeldLease<T, B>),
    Draining(HeldLease<T, B>),
    Releasing(HeldLease<T, B>),
    Lost(Loss<T>),
    Gone,
}

/// The lease, as its holder last wrote or read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HeldLease<T, B> {
    record: Record<T, B>,
    deadline: Clocks,
    /// Whether another may hold the lease, so that it must be read before it is written again.
    is_doubtful: bool,
    /// Whether the last answered write was a conflict.
    has_conflicted: bool,
}

/// An attempt in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flight {
    number: u64,
    purpose: Purpose,
    /// The time when the request was sent.
    sent: Clocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Read,
    Create,
    Claim,
    Renew,
    Release,
}

impl<T: Clone + Eq, B: Clone> Protocol<T, B> {
    /// Creates a candidate. The work of `former` must have ended, because its lease counts as free.
    pub(crate) fn new(timing: Timing, identity: T, former: Option<FormerTerm<T>>) -> Self {
        Self {
            timing,
            identity,
            former,
            state: State::Foreign(Seen::Unknown),
            flight: None,
            attempts: 0,
            not_before: Duration::ZERO,
            is_watching: false,
            #[cfg(test)]
            mutant: CHOSEN_MUTANT.get(),
        }
    }

    /// Returns the deadline and the lease while the lease is held for work: in the states Live and
    /// Draining. The deadline may have passed. Returns `None` in all other states.
    pub(crate) fn held(&self) -> Option<(Clocks, &Record<T, B>)> {
        match &self.state {
            State::Live(held) | State::Draining(held) => Some((held.deadline, &held.record)),
            _ => None,
        }
    }

    /// Returns whether the candidate waits for a lease that it does not hold.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.state, State::Foreign(_))
    }

    /// Returns the lease that the candidate waits for because it is not free, and the time of the
    /// monotonic clock when it expires. Its holder is this candidate if it has created the lease.
    pub(crate) fn awaits(&self) -> Option<(&Record<T, B>, Duration)> {
        match &self.state {
            State::Foreign(Seen::Known { record, since, .. }) => {
                let free_at = self.free_at(record, *since);
                (free_at > since.monotonic).then_some((record, free_at))
            }
            _ => None,
        }
    }

    /// Returns whether a claim is in flight.
    pub(crate) fn is_claiming(&self) -> bool {
        matches!(self.state, State::Claiming)
    }

    /// Returns the next step. Call it after each input, and at the time that the last
    /// [`CandidateStep::Wait`] contains.
    pub(crate) fn next(&mut self, now: Clocks) -> CandidateStep<T, B> {
        // This check comes first, so that no request is sent for a lease whose deadline has passed:
        // another candidate may have claimed it.
        self.check_deadline(now);
        let deadline = match &self.state {
            State::Lost(loss) => return CandidateStep::Lost(loss.clone()),
            State::Gone => return CandidateStep::Gone,
            State::Live(held) | State::Draining(held) | State::Releasing(held) => {
                Some(held.deadline.monotonic)
            }
            State::Foreign(_) | State::Claiming => None,
        };
        // A holder must wake at its deadline whatever else it waits for, so that its work ends in
        // time even if no answer arrives.
        let wait = |until: Duration| {
            CandidateStep::Wait(Some(deadline.map_or(until, |deadline| deadline.min(until))))
        };
        // There is one attempt at a time. `not_before` says nothing while one is in flight: a timer
        // for it would wake the caller although no request can follow.
        if self.flight.is_some() {
            return CandidateStep::Wait(deadline);
        }
        // The pause between attempts, or the time until the next renewal.
        if now.monotonic < self.not_before {
            return wait(self.not_before);
        }
        // Renewals and releases keep the number of transitions: by it a holder recognises its own
        // claim (`HeldLease::is_of`).
        let replace = |base: &Record<T, B>, holder| LeaseRequest::Replace {
            base: base.clone(),
            holder,
            transitions: base.transitions,
        };
        let (purpose, request) = match &self.state {
            State::Foreign(Seen::Unknown) => (Purpose::Read, LeaseRequest::Read),
            State::Foreign(Seen::Absent) => {
                (Purpose::Create, LeaseRequest::Create { holder: self.identity.clone() })
            }
            State::Foreign(Seen::Known { record, since, checked }) => {
                let free_at = self.free_at(record, *since);
                let read_at = checked.saturating_add(self.timing.retry_period);
                let is_free = free_at <= now.monotonic;
                mutant!(self, ObserverUsesWallClock => let is_free = since.by_wall(free_at, now));
                if is_free {
                    // The state changes with the request, so that the candidate does not observe
                    // the lease while its claim may already be applied: only the answer to the
                    // claim makes a holder.
                    let transitions = record.transitions.max(0).saturating_add(1);
                    let holder = Some(self.identity.clone());
                    let request =
                        LeaseRequest::Replace { base: record.clone(), holder, transitions };
                    self.state = State::Claiming;
                    (Purpose::Claim, request)
                } else if self.is_watching {
                    // A change arrives as an input and restarts the wait, so only the expiry needs
                    // a timer. Reads of all candidates would be load without a gain.
                    return wait(free_at);
                } else if now.monotonic < read_at {
                    return wait(free_at.min(read_at));
                } else {
                    (Purpose::Read, LeaseRequest::Read)
                }
            }
            State::Live(held) | State::Draining(held) | State::Releasing(held)
                if held.is_doubtful =>
            {
                // The lease may have another version by now. A write that contains the known one
                // would be a conflict each time, and the read also shows whether the lease is still
                // this candidate's.
                (Purpose::Read, LeaseRequest::Read)
            }
            State::Live(held) | State::Draining(held) => {
                (Purpose::Renew, replace(&held.record, Some(self.identity.clone())))
            }
            State::Releasing(held) => (Purpose::Release, replace(&held.record, None)),
            // Not reached: a claim is in flight in `Claiming` until it is answered, and the answer
            // changes the state; the other two returned above. A candidate without a request has
            // no time to wait for.
            State::Claiming | State::Lost(_) | State::Gone => return CandidateStep::Wait(None),
        };
        // The number distinguishes the answer to this attempt from late answers to abandoned ones.
        // The deadline counts from here, before the request leaves (rule 2).
        self.attempts += 1;
        self.flight = Some(Flight { number: self.attempts, purpose, sent: now });
        CandidateStep::Send { number: self.attempts, request }
    }

    /// Returns whether this attempt is in progress, so that its answer counts.
    pub(crate) fn is_in_progress(&self, number: u64) -> bool {
        self.flight.is_some_and(|flight| flight.number == number)
    }

    /// Takes the answer to an attempt. Ignores it if the attempt is no longer in progress.
    pub(crate) fn answered(&mut self, now: Clocks, number: u64, answer: Answer<T, B>) {
        mutant!(self, OldAnswersCount => let number = self.number_in_flight().unwrap_or(number));
        // Rule 3: an answer to an abandoned attempt says nothing about the state since then.
        let Some(flight) = self.flight.take_if(|flight| flight.number == number) else { return };
        // The deadline is checked before the answer counts: a renewal that is answered after the
        // deadline comes too late, because the work has ended or is ending.
        self.check_deadline(now);
        mutant!(self, DeadlineFromAnswer => let flight = Flight { sent: now, ..flight });
        // A failing server gets one request per retry period. So does a lease that several
        // candidates try to claim. A holder's conflict is followed by a read at once, because its
        // deadline approaches (`answered_holder`).
        let retry_at = now.monotonic.saturating_add(self.timing.retry_period);
        if let (_, Answer::Unclear) | (State::Foreign(_) | State::Claiming, Answer::Conflict) =
            (&self.state, &answer)
        {
            self.not_before = retry_at;
        }
        match self.state {
            // The state decides how the answer is handled, and not the purpose of the attempt: a
            // `Live` candidate may have become `Draining` during it. A release abandons a renewal
            // in flight.
            State::Foreign(_) => self.answered_foreign(now, flight, answer),
            State::Claiming => self.answered_claim(now, flight, answer),
            State::Live(_) | State::Draining(_) | State::Releasing(_) => {
                self.answered_holder(flight, answer, retry_at);
            }
            State::Lost(_) | State::Gone => {}
        }
    }

    fn answered_foreign(&mut self, now: Clocks, flight: Flight, answer: Answer<T, B>) {
        mutant!(self, AbsentLeaseIsFree => if flight.purpose == Purpose::Create {
            return self.answered_claim(now, flight, answer);
        });
        mutant!(self, ReadCountsAsClaim => if self.is_named_by(&answer) {
            return self.answered_claim(now, flight, answer);
        });
        let State::Foreign(seen) = &mut self.state else { return };
        match answer {
            Answer::State(record) => seen.update(now, record),
            // The creation was, or may have been, applied.
            Answer::Conflict | Answer::Unclear if flight.purpose == Purpose::Create => {
                *seen = Seen::Unknown;
            }
            Answer::Conflict | Answer::Unclear => {}
        }
    }

    fn answered_claim(&mut self, now: Clocks, flight: Flight, answer: Answer<T, B>) {
        let deadline = self.deadline(flight);
        self.state = match answer {
            Answer::State(Some(record)) if !deadline.has_passed(now) => {
                self.not_before = self.renew_at(flight);
                State::Live(HeldLease {
                    record,
                    deadline,
                    is_doubtful: false,
                    has_conflicted: false,
                })
            }
            _ => State::Foreign(Seen::Unknown),
        };
    }

    fn answered_holder(&mut self, flight: Flight, answer: Answer<T, B>, retry_at: Duration) {
        let (deadline, renew_at) = (self.deadline(flight), self.renew_at(flight));
        let identity = self.identity.clone();
        let is_releasing = matches!(self.state, State::Releasing(_));
        let (State::Live(held) | State::Draining(held) | State::Releasing(held)) = &mut self.state
        else {
            return;
        };
        match (flight.purpose, answer) {
            (Purpose::Renew, Answer::State(Some(record))) => {
                // Only a watch can have caused a doubt since the renewal was sent: it has shown
                // another state, which may be newer than this answer. The read follows at once.
                let is_doubtful = held.is_doubtful;
                mutant!(self, RenewalEndsDoubt => let is_doubtful = false);
                *held = HeldLease { record, deadline, is_doubtful, has_conflicted: false };
                if !is_doubtful {
                    self.not_before = renew_at;
                }
            }
            (Purpose::Release, Answer::State(_)) => self.state = State::Gone,
            // The write follows at once: if others write the lease often, a later one would be a
            // conflict.
            (Purpose::Read, Answer::State(Some(record))) if held.is_of(&record, &identity) => {
                held.record = record;
                held.is_doubtful = false;
                mutant!(self, ReadCountsAsRenewal => held.deadline = deadline);
            }
            (Purpose::Read, Answer::State(read)) => {
                mutant!(self, ReleasesAnothersLease => if is_releasing && held.adopts(read.as_ref()) {
                    return;
                });
                mutant!(self, KeepsLeadingUnderAnother => return);
                self.state = if is_releasing {
                    State::Gone
                } else {
                    State::Lost(Loss::Replaced(read.and_then(|record| record.holder)))
                };
            }
            (Purpose::Release, Answer::Unclear) => held.is_doubtful = true,
            (_, Answer::Conflict | Answer::State(None)) => {
                held.is_doubtful = true;
                // The read follows at once, but writes that conflict each time must not become a
                // flood.
                if held.has_conflicted {
                    self.not_before = retry_at;
                }
                held.has_conflicted = true;
            }
            // A renewal is repeated with the same version: if it was applied, that is a conflict.
            (_, Answer::Unclear | Answer::State(Some(_))) => {}
        }
    }

    /// Takes a state of the lease from a watch, or `None` if the lease was deleted. The state may
    /// be out of date.
    pub(crate) fn observed(&mut self, now: Clocks, record: Option<Record<T, B>>) {
        match &mut self.state {
            State::Foreign(seen) => {
                seen.update(now, record);
                // The server may have processed a read in flight before the change, so its answer
                // must not replace this state.
                self.flight.take_if(|flight| flight.purpose == Purpose::Read);
            }
            State::Live(held) | State::Draining(held) | State::Releasing(held) => {
                // The state may be older than the claim. A read decides, and at once.
                if !record.is_some_and(|record| held.is_of(&record, &self.identity)) {
                    held.is_doubtful = true;
                    self.not_before = now.monotonic;
                }
            }
            State::Claiming | State::Lost(_) | State::Gone => {}
        }
    }

    /// Sets whether a watch reports changes. Without a watch, the lease is read each retry period.
    pub(crate) fn set_watching(&mut self, is_watching: bool) {
        self.is_watching = is_watching;
    }

    /// Stops the candidate. A holder renews the lease until [`work_ended`](Self::work_ended).
    pub(crate) fn stop(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            // The work continues for a while, so the lease must be held until it has ended.
            State::Live(held) => State::Draining(held),
            // No work has begun. A claim in flight may still be applied. The lease is not released
            // then: without the answer it is not known to be this candidate's, and it expires (rule
            // 7).
            State::Foreign(_) | State::Claiming => State::Gone,
            // Already stopped, or lost.
            other => other,
        };
    }

    /// Begins the release of the lease, if the candidate holds it and was [stopped](Self::stop).
    /// All work of the holder must have ended.
    pub(crate) fn work_ended(&mut self, now: Clocks) {
        self.check_deadline(now);
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            State::Draining(held) => {
                // A renewal in flight does not delay the release. If it is applied first, the
                // release is a conflict and is repeated.
                self.flight = None;
                self.not_before = now.monotonic;
                State::Releasing(held)
            }
            other => other,
        };
    }

    /// Loses the lease if its deadline has passed.
    fn check_deadline(&mut self, now: Clocks) {
        if let State::Live(held) | State::Draining(held) | State::Releasing(held) = &self.state
            && held.deadline.has_passed(now)
        {
            self.state = State::Lost(Loss::Deadline);
            self.flight = None;
        }
    }

    /// Returns the deadline of a holder whose write was answered.
    fn deadline(&self, flight: Flight) -> Clocks {
        let held_for = self.timing.renew_deadline;
        mutant!(self, HoldsForLeaseDuration => let held_for = self.timing.lease_duration);
        let deadline = flight.sent.after(held_for);
        mutant!(self, HolderIgnoresWallClock => let deadline = deadline.without_wall());
        mutant!(self, HolderIgnoresMonotonicClock => let deadline = deadline.without_monotonic());
        deadline
    }

    /// Returns the time of the renewal that follows a write.
    fn renew_at(&self, flight: Flight) -> Duration {
        let Timing { lease_duration, renew_deadline, .. } = self.timing;
        flight.sent.monotonic.saturating_add((lease_duration / 3).min(renew_deadline / 2))
    }

    /// Returns the time of the monotonic clock from which a claim may replace `record`, which was
    /// first seen at `since`.
    fn free_at(&self, record: &Record<T, B>, since: Clocks) -> Duration {
        let is_former = self.former.as_ref().is_some_and(|former| former.is_of(record));
        mutant!(self, FormerByNameAlone => let is_former =
            self.former.as_ref().map(|former| &former.identity) == record.holder.as_ref());
        let is_free = record.holder.is_none() || is_former;
        let duration = self.timing.lease_duration.max(record.duration);
        mutant!(self, ObserverUsesOwnDuration => let duration = self.timing.lease_duration);
        mutant!(self, TakesUnexpiredLease => let duration = Duration::ZERO);
        if is_free { since.monotonic } else { since.monotonic.saturating_add(duration) }
    }
}

impl<T: Eq, B> HeldLease<T, B> {
    /// Returns whether `record` is a state of the lease since this candidate's claim: its holder is
    /// `identity`, and its uid and transitions are those of the claim.
    fn is_of(&self, record: &Record<T, B>, identity: &T) -> bool {
        record.holder.as_ref() == Some(identity)
            && record.uid == self.record.uid
            && record.transitions == self.record.transitions
    }
}
