//! What the queue, its items and its keeper have in common: each operation on a key, from the hash
//! to the wake-up.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Key;
use super::delays::Delays;
use super::entry::{Added, Schedule};
use super::item::{Claim, Item};
use super::limiter::RateLimiter;
use super::line::{Line, Next, Phase};
use super::metrics::Metrics;
use super::options::AddOptions;
use super::shard::{Place, Shard};
use super::sharded::Sharded;
use crate::strangers::unharmed;
use crate::time::FAR;

/// So many keys whose time has come are queued before other tasks have a turn.
const PIECE: usize = 256;

pub(super) struct Shared<K> {
    pub(super) shards: Sharded<Shard<K>>,
    schedule: Schedule,
    /// Where those sleep who want a key. Waking runs no stranger's code that could panic, see
    /// `sleep.rs`.
    pub(super) ready: Notify,
    /// Where the keeper sleeps, whose waker is tokio's.
    pub(super) keeper: Notify,
    /// Where those sleep who wait for the end of all work.
    pub(super) drained: Notify,
    pub(super) limiter: Box<dyn RateLimiter<K>>,
    metrics: Option<Metrics>,
}

/// What a look for a key brought.
pub(super) enum Taken<K: Key> {
    Item(Item<K>),
    Empty,
    ShutDown,
}

impl<K: Key> Shared<K> {
    pub(super) fn new(limiter: Box<dyn RateLimiter<K>>, metrics: Option<Metrics>) -> Self {
        Self {
            shards: Sharded::new(),
            schedule: Schedule {
                line: Mutex::new(Line::new()),
                delays: Mutex::new(Delays::default()),
            },
            ready: Notify::new(),
            keeper: Notify::new(),
            drained: Notify::new(),
            limiter,
            metrics,
        }
    }

    /// Asks for a key. The rate limiter is asked only if that is a failure; a key that is queued,
    /// or backs off already, keeps the time that it has.
    pub(super) fn add(&self, key: K, options: AddOptions) {
        let AddOptions { priority, after, rate_limited } = options;
        // No delay asks for nothing beside a limit: else it would lift it.
        let mut delay = after.filter(|after| !rate_limited || !after.is_zero());
        let since = self.stamp();
        let hash = self.shards.hash(&key);
        let number = Sharded::<Shard<K>>::number_of(hash);
        let mut shard = self.shards.lock(number);
        let mut found = shard.find(hash, &key);
        let fails = rate_limited && !found.is_some_and(|slot| shard.entry(slot).is_limited());
        if fails && !shard.is_closed() {
            // The limiter is user code, which runs with nothing locked.
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
        let (place, entry) = (Place { shard: number, slot }, shard.entry(slot));
        let added = if rate_limited && delay.is_none() {
            entry.raise(place, priority, &self.schedule);
            Added::Quietly
        } else {
            let at =
                delay.filter(|delay| !delay.is_zero()).map(|delay| Instant::now() + delay.min(FAR));
            entry.add(place, priority, at, since, &self.schedule)
        };
        if fails {
            entry.set_limited(true);
        }
        drop(shard);
        if delay.is_some() {
            self.tell(Metrics::retried);
        }
        self.tell_of(added);
    }

    /// Forgets the failures of a key: its next failure is its first one, also if it backs off
    /// now.
    pub(super) fn forget(&self, key: &K) {
        // First: else an add in between could begin a long back-off that no later add shortens.
        self.limiter.forget(key);
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(Sharded::<Shard<K>>::number_of(hash));
        if let Some(slot) = shard.find(hash, key) {
            shard.entry(slot).set_limited(false);
        }
    }

    /// Takes the next key, if there is one.
    pub(super) fn take(self: &Arc<Self>) -> Taken<K> {
        let next = self.schedule.line.lock().next();
        let place = match next {
            Next::Key(place) => place,
            Next::Empty => return Taken::Empty,
            Next::ShutDown => return Taken::ShutDown,
        };
        // Between the line and the shard the key counts as queued: an add is right to leave it at
        // that, since who takes it has yet to begin.
        let claim = Claim::new(Arc::clone(self), place);
        let now = self.stamp();
        let (key, priority, since) = self.shards.lock(place.shard).take(place.slot, now);
        self.tell(|metrics| metrics.taken(waited(since, now)));
        Taken::Item(Item::new(claim, key, priority))
    }

    /// Ends a processing.
    pub(super) fn end(&self, place: Place) {
        let now = self.stamp();
        let (ended, started, key) = self.shards.lock(place.shard).end(place, &self.schedule);
        self.tell(|metrics| metrics.done(waited(started, now)));
        if ended.queued {
            self.ready.notify_one();
        }
        if ended.drained {
            self.drained.notify_waiters();
        }
        // Last: a stranger's drop may take its time. Unharmed: this may be a drop in a thread that
        // unwinds.
        unharmed(|| drop(key));
    }

    /// Queues keys whose time has come; whether there may be more of them.
    pub(super) fn queue_due(&self, now: Instant) -> bool {
        let due = self.schedule.delays.lock().due(now, PIECE);
        let since = self.stamp();
        for &(delay, place) in &due {
            let added = self.shards.lock(place.shard).due(place, delay, since, &self.schedule);
            self.tell_of(added);
        }
        due.len() == PIECE
    }

    /// The earliest time that a key waits for.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.schedule.delays.lock().next()
    }

    pub(super) fn len(&self) -> usize {
        self.schedule.line.lock().len()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.schedule.line.lock().phase() != Phase::Open
    }

    /// Refuses every add that begins after this, and lets who finds nothing to take know that it
    /// stays so. First the shards, then the line: whoever finds the line ended and empty has
    /// missed no add.
    pub(super) fn end_with(&self, phase: Phase) {
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

    /// Tells how long keys have been processed that are not done.
    pub(super) fn tell_of_unfinished(&self, now: Instant) {
        let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
        for shard in self.shards.each() {
            for started in shard.started() {
                let age = now.saturating_duration_since(started);
                total += age;
                longest = longest.max(age);
            }
        }
        self.tell(|metrics| metrics.unfinished(total, longest));
    }

    /// The time, if somebody measures.
    fn stamp(&self) -> Option<Instant> {
        self.has_metrics().then(Instant::now)
    }

    fn tell(&self, of: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            unharmed(|| of(metrics));
        }
    }

    fn tell_of(&self, added: Added) {
        if matches!(added, Added::Queued | Added::Again) {
            self.tell(Metrics::added);
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
