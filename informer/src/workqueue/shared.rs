//! The state that a queue shares with its items and its task ([`Keeper`](super::keeper::Keeper)),
//! and the operations on this state. Each operation has all steps, from hashing the key to waking
//! the waiters.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::panics::ignore_panic;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Key;
use super::delays::Delays;
use super::entry::{Added, QueueState, Requested};
use super::item::{Claim, Item};
use super::limiter::RateLimiter;
use super::line::{KeyOrder, NextKey, QueuePhase};
use super::metrics::Metrics;
use super::options::AddOptions;
use super::shard::{EntryPlace, Shard};
use super::sharded::Sharded;
use crate::util::time::FAR;

/// The number of due keys that are queued before other tasks can run.
const PIECE: usize = 256;

/// The state of a queue.
pub(super) struct SharedQueue<K> {
    pub(super) shards: Sharded<Shard<K>>,
    schedule: QueueState,
    /// The event that wakes getters, that is, callers of [`get`](super::WorkQueue::get). Their
    /// wakers cannot panic here, see `util/sleep.rs`.
    pub(super) ready: Notify,
    /// The event that wakes the queue's task, whose waker is tokio's.
    pub(super) keeper: Notify,
    /// The event that wakes drains, that is, callers of
    /// [`shut_down_with_drain`](super::WorkQueue::shut_down_with_drain).
    pub(super) drained: Notify,
    pub(super) limiter: Box<dyn RateLimiter<K>>,
    metrics: Option<Metrics>,
}

/// The result of taking a key.
pub(super) enum NextItem<K: Key> {
    Item(Item<K>),
    Empty,
    ShutDown,
}

impl<K: Key> SharedQueue<K> {
    pub(super) fn new(limiter: Box<dyn RateLimiter<K>>, metrics: Option<Metrics>) -> Self {
        Self {
            shards: Sharded::new(),
            schedule: QueueState {
                line: Mutex::new(KeyOrder::new()),
                delays: Mutex::new(Delays::default()),
            },
            ready: Notify::new(),
            keeper: Notify::new(),
            drained: Notify::new(),
            limiter,
            metrics,
        }
    }

    /// Adds a key. For a rate-limited add, the rate limiter is asked only if the add counts as a
    /// failure. If the key is queued or already backs off, such an add can only raise the key's
    /// priority or, with `after`, shorten its wait.
    pub(super) fn add(&self, key: K, options: AddOptions) {
        let AddOptions { priority, after, rate_limited, tag } = options;
        let requested = Requested { priority, tag };
        // A delay of zero with a rate limit counts as no delay. Otherwise it would cancel the
        // limit.
        let mut delay = after.filter(|after| !rate_limited || !after.is_zero());
        let since = self.stamp();
        let hash = self.shards.hash(&key);
        let number = Sharded::<Shard<K>>::number_of(hash);
        let mut shard = self.shards.lock(number);
        let mut found = shard.find(hash, &key);
        let fails = rate_limited && !found.is_some_and(|slot| shard.entry(slot).is_limited());
        if fails && !shard.is_closed() {
            // The limiter is user code, so call it with no lock held.
            drop(shard);
            let limit = self.limiter.when(&key);
            delay = Some(delay.map_or(limit, |after| after.min(limit)));
            shard = self.shards.lock(number);
            found = shard.find(hash, &key);
        }
        if shard.is_closed() {
            return;
        }
        let slot = match found {
            Some(slot) => slot,
            None => shard.insert(hash, key),
        };
        let (place, entry) = (EntryPlace { shard: number, slot }, shard.entry(slot));
        let added = if rate_limited && delay.is_none() {
            entry.raise(place, requested, &self.schedule);
            Added::Quietly
        } else {
            let at =
                delay.filter(|delay| !delay.is_zero()).map(|delay| Instant::now() + delay.min(FAR));
            entry.add(place, requested, at, since, &self.schedule)
        };
        if fails {
            entry.set_limited(true);
        }
        drop(shard);
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
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(Sharded::<Shard<K>>::number_of(hash));
        if let Some(slot) = shard.find(hash, key) {
            shard.entry(slot).set_limited(false);
        }
    }

    /// Takes the next key, if there is one.
    pub(super) fn take(self: &Arc<Self>) -> NextItem<K> {
        let next = self.schedule.line.lock().next();
        let place = match next {
            NextKey::Key(place) => place,
            NextKey::Empty => return NextItem::Empty,
            NextKey::ShutDown => return NextItem::ShutDown,
        };
        // The order of keys is unlocked, and the shard is not locked yet. In the shard, the key
        // still counts as queued, so an add at this moment changes nothing. That is correct,
        // because the processing has not begun.
        let claim = Claim::new(Arc::clone(self), place);
        let now = self.stamp();
        let (key, requested, since) = self.shards.lock(place.shard).take(place.slot, now);
        self.record(|metrics| metrics.taken(waited(since, now)));
        NextItem::Item(Item::new(claim, key, requested))
    }

    /// Ends the processing of the key whose entry is at `place`.
    pub(super) fn end(&self, place: EntryPlace) {
        let now = self.stamp();
        let (ended, started, key) = self.shards.lock(place.shard).end(place, &self.schedule);
        self.record(|metrics| metrics.done(waited(started, now)));
        if ended.queued {
            self.ready.notify_one();
        }
        if ended.drained {
            self.drained.notify_waiters();
        }
        // Last, because user code may take long. Its panic is ignored because this may run in a
        // drop during unwinding.
        ignore_panic(|| drop(key));
    }

    /// Queues keys whose time has come. Returns whether there may be more of them.
    pub(super) fn queue_due(&self, now: Instant) -> bool {
        let due = self.schedule.delays.lock().due(now, PIECE);
        let since = self.stamp();
        for &(delay, place) in &due {
            let added = self.shards.lock(place.shard).due(place, delay, since, &self.schedule);
            self.after_add(added);
        }
        due.len() == PIECE
    }

    /// Returns the earliest time that a key waits for.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.schedule.delays.lock().next()
    }

    pub(super) fn len(&self) -> usize {
        self.schedule.line.lock().len()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.schedule.line.lock().phase() != QueuePhase::Open
    }

    /// Ends the queue in the given phase. Adds that begin after this are ignored, and getters that
    /// find no key learn that none will come. The shards are closed before the order of keys
    /// (`line.rs`) ends, so a getter that finds the order ended and empty has missed no add.
    pub(super) fn end_with(&self, phase: QueuePhase) {
        self.shards.each().for_each(|mut shard| shard.close());
        self.schedule.delays.lock().clear();
        self.schedule.line.lock().end(phase);
        self.ready.notify_waiters();
        self.drained.notify_waiters();
        self.keeper.notify_one();
    }

    pub(super) fn is_draining(&self) -> bool {
        self.schedule.line.lock().is_draining()
    }

    pub(super) fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Records how long unfinished keys have been in processing.
    pub(super) fn record_unfinished(&self, now: Instant) {
        let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
        for shard in self.shards.each() {
            for started in shard.started() {
                let age = now.saturating_duration_since(started);
                total += age;
                longest = longest.max(age);
            }
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
        if matches!(added, Added::Queued | Added::Again) {
            self.record(Metrics::added);
        }
        match added {
            Added::Queued => self.ready.notify_one(),
            Added::WaitsFirst => self.keeper.notify_one(),
            Added::Again | Added::Quietly => {}
        }
    }
}

fn waited(from: Option<Instant>, until: Option<Instant>) -> Duration {
    from.zip(until).map_or(Duration::ZERO, |(from, until)| until.saturating_duration_since(from))
}
