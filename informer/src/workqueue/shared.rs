//! The state that a queue shares with its items and its task ([`Keeper`](super::keeper::Keeper)),
//! and the operations on this state. Each operation has all steps, from hashing the key to waking
//! the waiters.

use std::hash::BuildHasher;
use std::hint::spin_loop;
use std::iter;
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::{self, Duration};

use deltafifo::panics::ignore_panic;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Key;
use super::entry::Requested;
use super::item::{Claim, Item};
use super::limiter::RateLimiter;
use super::metrics::Metrics;
use super::options::AddOptions;
use super::state::{Added, ProcessingEnd, QueuePhase, QueueState};
use super::sync::{ATTEMPTS, Mutex, MutexGuard, RandomState, mutant};
use super::table::KeyHash;
use crate::util::time::FAR;

/// The time before each attempt to lock the state. Measured on two cores of AMD EPYC: shorter and
/// longer times gave lower rates there.
const BACK_OFF: Duration = Duration::from_micros(3);

/// The number of due keys that are queued before other tasks can run.
const PIECE: usize = 256;

/// The state of a queue.
pub(super) struct SharedQueue<K> {
    pub(super) state: Mutex<QueueState<K>>,
    hasher: RandomState,
    /// The event that wakes the queue's task, whose waker is tokio's.
    pub(super) keeper: Notify,
    /// The event that wakes drains, that is, callers of
    /// [`shut_down_with_drain`](super::WorkQueue::shut_down_with_drain). Their wakers cannot panic
    /// here, see `util/sleep.rs`.
    pub(super) drained: Notify,
    pub(super) limiter: Box<dyn RateLimiter<K>>,
    metrics: Option<Metrics>,
}

/// The result of taking a key.
pub(super) enum NextItem<'q, K: Key> {
    Item(Item<K>),
    /// There is none now. The queue is still locked, so that the caller can begin to sleep before
    /// a key is added.
    Empty(MutexGuard<'q, QueueState<K>>),
    ShutDown,
}

impl<K: Key> SharedQueue<K> {
    pub(super) fn new(limiter: Box<dyn RateLimiter<K>>, metrics: Option<Metrics>) -> Self {
        Self {
            state: Mutex::new(QueueState::new()),
            hasher: RandomState::default(),
            keeper: Notify::new(),
            drained: Notify::new(),
            limiter,
            metrics,
        }
    }

    fn hash(&self, key: &K) -> KeyHash {
        KeyHash::of(self.hasher.hash_one(key))
    }

    /// Locks the state.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        self.state.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    /// Locks the state that another thread has locked. Two threads that alternate fetch the lines
    /// of the state from each other's cache, for which an operation takes ten times as long. So
    /// this thread leaves the lock alone for the time of some tens of operations, and sleeps only
    /// after several attempts.
    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, QueueState<K>> {
        for _ in 0..ATTEMPTS {
            // By the clock, because the time of a pause depends on the processor.
            let began = time::Instant::now();
            while began.elapsed() < BACK_OFF {
                spin_loop();
            }
            if let Some(state) = self.state.try_lock() {
                return state;
            }
        }
        self.state.lock()
    }

    /// Adds a key.
    #[inline]
    pub(super) fn add(&self, key: K, options: AddOptions) {
        let AddOptions { priority, after, rate_limited, tag } = options;
        let requested = Requested { priority, tag };
        if after.is_none() && !rate_limited {
            self.add_now(key, requested);
        } else {
            self.add_later(key, requested, after, rate_limited);
        }
    }

    /// Adds a key without a delay and a rate limit, as most adds are.
    fn add_now(&self, key: K, requested: Requested) {
        let since = self.stamp();
        let hash = self.hash(&key);
        let mut state = self.lock();
        if state.phase != QueuePhase::Open {
            return;
        }
        let added = match state.find(hash, &key) {
            None => state.insert_dirty(hash, key, requested, since),
            Some(slot) => state.add(slot, requested, None, since),
        };
        drop(state);
        self.after_add(added);
    }

    /// Adds a key with a delay or a rate limit. For a rate-limited add, the rate limiter is asked
    /// only if the add counts as a failure. If the key is queued or already backs off, such an add
    /// can only raise the key's priority or, with `after`, shorten its wait.
    fn add_later(&self, key: K, requested: Requested, after: Option<Duration>, rate_limited: bool) {
        // A delay of zero with a rate limit counts as no delay. Otherwise it would cancel the
        // limit.
        let mut delay = after.filter(|after| !rate_limited || !after.is_zero());
        let since = self.stamp();
        let hash = self.hash(&key);
        let mut state = self.lock();
        let mut found = state.find(hash, &key);
        let fails = rate_limited && !found.is_some_and(|slot| state.entry(slot).is_limited());
        if fails && state.phase == QueuePhase::Open {
            // The limiter is user code, so call it with no lock held.
            drop(state);
            let limit = self.limiter.when(&key);
            delay = Some(delay.map_or(limit, |after| after.min(limit)));
            state = self.lock();
            found = state.find(hash, &key);
        }
        if state.phase != QueuePhase::Open {
            return;
        }
        let at =
            delay.filter(|delay| !delay.is_zero()).map(|delay| Instant::now() + delay.min(FAR));
        let added = match found {
            Some(slot) if rate_limited && delay.is_none() => {
                state.raise(slot, requested);
                Added::Quietly
            }
            _ => {
                // Not a closure: it would drop the key before the lock is released.
                let slot = match found {
                    Some(slot) => slot,
                    None => state.insert(hash, key),
                };
                let added = state.add(slot, requested, at, since);
                if fails {
                    state.entry(slot).limited = true;
                }
                added
            }
        };
        drop(state);
        if delay.is_some() {
            self.record(Metrics::retried);
        }
        self.after_add(added);
    }

    /// Forgets the failures of a key: its next failure counts as its first, even while it backs
    /// off.
    pub(super) fn forget(&self, key: &K) {
        // First: otherwise an add in between could start a long backoff that no later add
        // shortens.
        self.limiter.forget(key);
        let hash = self.hash(key);
        let mut state = self.lock();
        if let Some(slot) = state.find(hash, key) {
            state.entry(slot).limited = false;
        }
    }

    /// Takes the next key, if there is one.
    #[inline]
    pub(super) fn take(self: &Arc<Self>) -> NextItem<'_, K> {
        let now = self.stamp();
        // Dropped after the lock is released: if the clone of the key panics, the claim ends the
        // processing.
        let claim;
        let mut state = self.lock();
        let Some((slot, entry, since)) = state.take(now) else {
            return match state.phase {
                QueuePhase::Open => NextItem::Empty(state),
                QueuePhase::ShutDown | QueuePhase::Draining => NextItem::ShutDown,
            };
        };
        claim = Claim::new(Arc::clone(self), slot);
        let requested = Requested { priority: entry.priority, tag: entry.tag };
        let Some(key) = entry.key.clone() else { unreachable!("a queued entry has a key") };
        let next = NextItem::Item(Item::new(claim, key, requested));
        drop(state);
        self.record(|metrics| metrics.taken(waited(since, now)));
        next
    }

    /// Makes a sleeping getter wait with this waker. Returns false if the getter was woken; then it
    /// is no longer among the sleeping ones.
    pub(super) fn sleeps_on(&self, getter: u32, waker: &Waker) -> bool {
        let mut clone: Option<Waker> = None;
        loop {
            let mut state = self.lock();
            let Some(current) = state.sleepers.waker(getter) else {
                state.sleepers.remove(getter);
                return false;
            };
            if current.will_wake(waker) {
                return true;
            }
            mutant!(WakerIsNotReplaced => return true);
            if let Some(clone) = &mut clone {
                // The old one is dropped after the lock is released.
                mem::swap(current, clone);
                return true;
            }
            drop(state);
            clone = Some(waker.clone());
        }
    }

    /// Ends the wait of a getter. If the getter was woken and has not taken a key, its wake-up
    /// passes to the next one.
    pub(super) fn give_up(&self, getter: u32) {
        let mut state = self.lock();
        let own = state.sleepers.remove(getter);
        let next = if own.is_none() && state.len() > 0 { state.sleepers.wake() } else { None };
        mutant!(GiveUpLosesTheNext => let next = None);
        drop(state);
        wake(next);
        ignore_panic(|| drop(own));
    }

    /// Ends the processing of the key whose entry has this number.
    pub(super) fn end(&self, slot: u32) {
        let now = self.stamp();
        let mut state = self.lock();
        let started = now.and_then(|_| state.take_started(slot));
        let ProcessingEnd { wakes, drained, removed } = state.end(slot);
        mutant!(LastEndWakesNoDrain => let drained = false);
        drop(state);
        self.record(|metrics| metrics.done(waited(started, now)));
        wake(wakes);
        if drained {
            self.drained.notify_waiters();
        }
        // Last, because user code may take long. Its panic is ignored because this may run in a
        // drop during unwinding.
        if let Some(key) = removed {
            ignore_panic(move || drop(key));
        }
    }

    /// Queues keys whose time has come. Returns whether there may be more of them.
    pub(super) fn queue_due(&self, now: Instant) -> bool {
        let since = self.stamp();
        // Locks the queue for one key at a time.
        let next = || self.lock().end_wait(now, since);
        let due = iter::from_fn(next).take(PIECE).map(|added| self.after_add(added)).count();
        due == PIECE
    }

    /// Returns the earliest time that a key waits for.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().delays.next()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.lock().phase != QueuePhase::Open
    }

    /// Ends the queue in the given phase. Adds that begin after this are ignored, and getters that
    /// find no key learn that none will come. The keys that wait for a time are freed last, because
    /// their drops are user code.
    pub(super) fn end_with(&self, phase: QueuePhase) {
        let mut state = self.lock();
        state.phase = phase;
        let delays = mem::take(&mut state.delays);
        drop(state);
        mutant!(ShutDownWakesOne => let first = self.lock().sleepers.wake(); wake(first); return);
        iter::from_fn(|| self.lock().sleepers.wake()).for_each(|waker| wake(Some(waker)));
        self.drained.notify_waiters();
        self.keeper.notify_one();
        for slot in delays.into_slots() {
            let removed = self.lock().forgo_wait(slot);
            ignore_panic(move || drop(removed));
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.lock().is_draining()
    }

    pub(super) fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Records how long unfinished keys have been in processing.
    pub(super) fn record_unfinished(&self, now: Instant) {
        let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
        for started in self.lock().started() {
            let age = now.saturating_duration_since(started);
            total += age;
            longest = longest.max(age);
        }
        self.record(|metrics| metrics.unfinished(total, longest));
    }

    /// Returns the current time if there are metrics.
    fn stamp(&self) -> Option<Instant> {
        self.has_metrics().then(Instant::now)
    }

    fn record(&self, of: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            ignore_panic(|| of(metrics));
        }
    }

    fn after_add(&self, added: Added) {
        if matches!(added, Added::Queued(_) | Added::Again) {
            self.record(Metrics::added);
        }
        match added {
            Added::Queued(getter) => wake(getter),
            Added::WaitsFirst => self.keeper.notify_one(),
            Added::Again | Added::Quietly => {}
        }
    }
}

fn waited(from: Option<Instant>, until: Option<Instant>) -> Duration {
    from.zip(until).map_or(Duration::ZERO, |(from, until)| until.saturating_duration_since(from))
}

/// Wakes a getter, if there is one. Its waker is user code, whose panic must not affect the caller.
fn wake(getter: Option<Waker>) {
    if let Some(waker) = getter {
        ignore_panic(|| waker.wake());
    }
}
