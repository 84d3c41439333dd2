//! The hold on a lease, as the work under it sees it.

#[cfg(test)]
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
#[cfg(not(test))]
use std::time::{SystemTime, UNIX_EPOCH};

use deltafifo::tenure::Deadline;
use tokio::sync::watch;
use tokio::time::Instant;

use super::clocks::Clocks;
use crate::util::in_flight::{InFlight, WorkGuard};

/// The source of [`Clocks`] of one election. The monotonic clock is tokio's, which a test may
/// pause.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    /// The machine whose wall clock this is, in a test that sets wall clocks.
    #[cfg(test)]
    pub(crate) machine: usize,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            #[cfg(test)]
            machine: 0,
        }
    }

    pub(crate) fn now(self) -> Clocks {
        let monotonic = self.origin.elapsed();
        #[cfg(not(test))]
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        #[cfg(test)]
        let wall = monotonic + WALL_CLOCKS.get()[self.machine];
        Clocks { monotonic, wall }
    }

    /// Sleeps until this time of the monotonic clock, or for ever if there is none.
    pub(crate) async fn sleep_until(self, monotonic: Option<Duration>) {
        match monotonic.and_then(|monotonic| self.origin.checked_add(monotonic)) {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How far the wall clock of each machine is ahead of the monotonic clock. A test sets it for
    /// its thread.
    static WALL_CLOCKS: Cell<[Duration; 4]> = const { Cell::new([Duration::ZERO; 4]) };
}

/// Sets how far the wall clock of a machine, 0 to 3, is ahead of the monotonic clock.
#[cfg(test)]
pub(crate) fn set_wall_clock(machine: usize, ahead: Duration) {
    let mut clocks = WALL_CLOCKS.get();
    clocks[machine] = ahead;
    WALL_CLOCKS.set(clocks);
}

/// A hold on a lease. It ends at its deadline, or when its owner ends it. A hold that was found to
/// have ended never begins again, even if its deadline moves or a clock is set back.
#[derive(Clone)]
pub(crate) struct Hold(Arc<Shared>);

/// The state that the clones of a hold share.
struct Shared {
    /// Announces every change of `deadline`.
    span: watch::Receiver<Span>,
    /// A copy of the deadline in `span`, for checks without a lock. It has passed once the hold has
    /// ended.
    deadline: Arc<Deadline>,
    clock: Clock,
    /// The longest time between two checks of the wall clock. No timer follows that clock, so a
    /// deadline that it passes is noticed within this time.
    tick: Duration,
    /// The work under the hold.
    work: InFlight,
}

/// The owner of a hold. The hold ends as soon as the owner or any clone of it is dropped, even if
/// other clones remain.
#[derive(Clone)]
pub(crate) struct HoldOwner {
    span: watch::Sender<Span>,
    /// Changed only while `span` is locked for a change.
    deadline: Arc<Deadline>,
}

#[derive(Clone, Copy)]
struct Span {
    deadline: Clocks,
    has_ended: bool,
}

impl Hold {
    /// Creates a hold with this deadline. If the wall clock ends it first, that is noticed within
    /// `tick`.
    pub(crate) fn new(deadline: Clocks, clock: Clock, tick: Duration) -> (HoldOwner, Self) {
        let (sender, span) = watch::channel(Span { deadline, has_ended: false });
        let deadline = Arc::new(Deadline::new(deadline.nanos()));
        let owner = HoldOwner { span: sender, deadline: Arc::clone(&deadline) };
        let work = InFlight::default();
        (owner, Self(Arc::new(Shared { span, deadline, clock, tick, work })))
    }

    /// Returns whether the lease is held now, by both clocks.
    pub(crate) fn is_held(&self) -> bool {
        let Shared { deadline, clock, .. } = &*self.0;
        deadline.is_ahead(|| clock.now().nanos())
    }

    /// Returns the deadline. It may have passed, and the hold may have ended before.
    pub(crate) fn deadline(&self) -> Clocks {
        self.0.span.borrow().deadline
    }

    /// Waits until the lease is not held any more. Checks the wall clock once per tick.
    pub(crate) async fn ended(self) {
        let Shared { clock, tick, .. } = *self.0;
        let mut span = self.0.span.clone();
        loop {
            // Before the check, so that a later change ends the wait.
            let deadline = span.borrow_and_update().deadline.monotonic;
            if !self.is_held() {
                return;
            }
            let tick = clock.now().monotonic.saturating_add(tick);
            tokio::select! {
                biased;
                // An owner ends the hold before it is dropped.
                changed = span.changed() => if changed.is_err() { return },
                () = clock.sleep_until(Some(deadline.min(tick))) => {}
            }
        }
    }

    /// Counts a piece of work. Returns `None` if the lease is not held.
    pub(crate) fn begin(&self) -> Option<WorkGuard> {
        // Counted first: the owner ends the hold before it checks whether work is in flight.
        let guard = self.0.work.begin();
        // Read under the channel's lock: either the owner sees this guard, or this read sees that
        // the hold has ended. Without the lock, both could miss the other.
        let has_ended = self.0.span.borrow().has_ended;
        (!has_ended && self.is_held()).then_some(guard)
    }

    /// Counts a piece of work that is a part of work in flight, even if the lease is not held any
    /// more.
    pub(crate) fn continue_work(&self) -> WorkGuard {
        self.0.work.begin()
    }

    /// Returns whether no work is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.work.is_idle()
    }

    /// Waits until no work is in flight.
    pub(crate) async fn wait_idle(&self) {
        self.0.work.wait_idle().await;
    }
}

impl HoldOwner {
    /// Moves the deadline.
    pub(crate) fn extend(&self, to: Clocks) {
        self.span.send_if_modified(|span| {
            let is_moved = span.deadline != to;
            if is_moved {
                span.deadline = to;
                self.deadline.extend(to.nanos());
            }
            is_moved
        });
    }

    /// Ends the hold.
    pub(crate) fn end(&self) {
        self.span.send_modify(|span| {
            span.has_ended = true;
            self.deadline.end();
        });
    }
}

impl Drop for HoldOwner {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use futures_util::poll;

    use super::{Clock, Clocks, Hold, Instant, set_wall_clock};

    #[tokio::test(start_paused = true)]
    async fn hold_that_was_found_to_have_ended_does_not_begin_again() {
        let clock = Clock::new();
        let (owner, hold) = Hold::new(clock.now(), clock, Duration::from_secs(2));
        let other = hold.clone();
        assert!(!hold.is_held());
        owner.extend(clock.now().after(Duration::from_secs(10)));
        assert!(!hold.is_held() && !other.is_held());
        assert!(other.begin().is_none());
        other.ended().await;
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_that_a_step_of_the_wall_clock_passes_is_noticed_within_a_tick() {
        let clock = Clock::new();
        let (began, now) = (Instant::now(), clock.now());
        let deadline = Clocks {
            monotonic: now.monotonic + Duration::from_secs(3600),
            wall: now.wall + Duration::from_secs(3600),
        };
        let (_owner, hold) = Hold::new(deadline, clock, Duration::from_secs(2));
        let mut ended = pin!(hold.ended());
        assert!(poll!(&mut ended).is_pending());
        set_wall_clock(clock.machine, Duration::from_secs(3600));
        ended.await;
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    }
}
