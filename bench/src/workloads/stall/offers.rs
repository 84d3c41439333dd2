//! The updates of one queue of the workload `stall` (see the parent module). They are created in
//! advance, and offered at fixed times whether or not the earlier offers have returned (an open
//! loop). The handler recognises them by their versions. All times are in nanoseconds since the
//! start.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use deltafifo::Meta;
use serde_json::{Map, Value};

use super::super::fill::ChildError;
use super::super::latency::Latencies;
use super::super::pace::wait_until;
use crate::data::{ListPlan, Source, build};
use crate::engines::QueueEngine;
use crate::protocol::ChildArgs;

const OFFER_EVERY: Duration = Duration::from_micros(100);
const WAIT_FOR_OFFERS: Duration = Duration::from_secs(60);

/// The usual length of a turn in which one of the two queues gets updates.
const TURN: Duration = Duration::from_millis(100);

/// The relists of the first queue, and the clock of the measurement.
#[derive(Default)]
pub struct Relists {
    started: OnceLock<Instant>,
    /// Whether a relist is running.
    running: AtomicBool,
}

impl Relists {
    /// Returns the start of the clock that all times refer to. The first call starts the clock.
    pub fn clock(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    fn now(&self) -> u64 {
        nanoseconds(self.clock().elapsed())
    }

    /// Runs a relist. Only offers that start during a relist are measured.
    pub fn during(&self, replace: impl FnOnce()) {
        self.running.store(true, Ordering::SeqCst);
        replace();
        self.running.store(false, Ordering::SeqCst);
    }
}

/// The updates of one queue, and their measurements.
pub struct Offers<'r, T> {
    objects: Vec<Arc<T>>,
    relists: &'r Relists,
    turns: Turns,
    /// The number of updates that were offered. `handled` counts those that were handled.
    made: AtomicUsize,
    handled: AtomicUsize,
    /// The measurements of each update.
    records: Vec<Offer>,
}

/// The times of the offers of one of two queues that take turns.
struct Turns {
    /// The number of offers in a turn.
    offers: usize,
    /// 0 if the first turn is of this queue, else 1.
    place: usize,
}

impl Turns {
    fn intended(&self, sequence: usize) -> Duration {
        let earlier_turns = 2 * (sequence / self.offers) + self.place;
        let earlier = earlier_turns * self.offers + sequence % self.offers;
        OFFER_EVERY * u32::try_from(earlier).unwrap_or(u32::MAX)
    }
}

/// The measurements of an update. The producer and the consumer write their fields once each.
#[derive(Default)]
struct Offer {
    /// Whether the offer started during a relist.
    during_relist: AtomicBool,
    took: AtomicU64,
    /// The time at which the update was handled, or 0 if it was not.
    handled_at: AtomicU64,
}

impl<'r, T: Send + Sync> Offers<'r, T> {
    /// Creates the updates of the queue whose turns come first (`place` 0) or second (1).
    pub fn new<S: Source<Object = T>>(
        source: &S,
        args: &ChildArgs,
        relists: &'r Relists,
        place: usize,
    ) -> Self {
        let fit = |length: Duration| {
            let offers = length.as_nanos() / OFFER_EVERY.as_nanos();
            usize::try_from(offers).unwrap_or(usize::MAX).max(1)
        };
        let length = args.settings.length;
        let offers = fit(length);
        Self {
            objects: build(source, &ListPlan::offers(offers, args.objects)),
            relists,
            turns: Turns { offers: fit(length.min(TURN)), place },
            made: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            records: (0..offers).map(|_| Offer::default()).collect(),
        }
    }

    /// Offers each update at its time, or as soon after it as possible. Updates that have not been
    /// offered by the end of the last turn are left out.
    pub fn offer(&self, target: &impl QueueEngine<T>) {
        let start = self.relists.clock();
        let end = nanoseconds(self.turns.intended(self.records.len() - 1) + OFFER_EVERY);
        for (sequence, (object, offer)) in self.objects.iter().zip(&self.records).enumerate() {
            wait_until(start, self.turns.intended(sequence));
            let object = object.clone();
            let began = self.relists.now();
            if began >= end {
                return;
            }
            offer
                .during_relist
                .store(self.relists.running.load(Ordering::SeqCst), Ordering::Relaxed);
            target.update(object);
            offer.took.store(self.relists.now() - began, Ordering::Relaxed);
            self.made.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that an update was handled. Only updates that [`offer`](Self::offer) offers have a
    /// version that starts with an `e`; all other versions are numbers.
    pub fn record_handled<S: Source<Object = T>>(&self, object: &Arc<T>) {
        let number = |version: &str| version.strip_prefix('e')?.parse::<usize>().ok();
        let sequence = S::Meta::default().version(object).and_then(number);
        if let Some(offer) = sequence.and_then(|sequence| self.records.get(sequence)) {
            offer.handled_at.store(self.relists.now(), Ordering::Relaxed);
            self.handled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the consumer has handled every offered update, at most one minute.
    pub fn wait(&self) {
        let end = Instant::now() + WAIT_FOR_OFFERS;
        while self.handled.load(Ordering::Relaxed) < self.made() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the number of offered updates.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the latencies of the offers that started during a relist, and the latencies of
    /// their handling from the intended time. An update that was not handled counts with the time
    /// until now, which is a lower limit. Inserts the numbers of offers and of unhandled updates
    /// into `extra`. Returns an error if no offer started during a relist.
    pub fn figures(
        &self,
        extra: &mut Map<String, Value>,
    ) -> Result<[(&'static str, Latencies); 2], ChildError> {
        let (now, made) = (self.relists.now(), self.made());
        let (mut adds, mut handled, mut unhandled) = (Latencies::new(), Latencies::new(), 0);
        for (sequence, offer) in self.records[..made].iter().enumerate() {
            if !offer.during_relist.load(Ordering::Relaxed) {
                continue;
            }
            let at = match offer.handled_at.load(Ordering::Relaxed) {
                // Not handled, or handled after the wait, while this loop runs.
                at if at == 0 || at > now => {
                    unhandled += 1;
                    now
                }
                at => at,
            };
            adds.record(Duration::from_nanos(offer.took.load(Ordering::Relaxed)));
            handled.record(Duration::from_nanos(at).saturating_sub(self.turns.intended(sequence)));
        }
        if adds.len() == 0 {
            let advice = "pass more --seconds or --objects";
            return Err(format!("stall: none of {made} offers began in a relist: {advice}").into());
        }
        extra.insert("offers".into(), adds.len().into());
        extra.insert("offers_made".into(), made.into());
        extra.insert("offers_intended".into(), self.records.len().into());
        extra.insert("unhandled".into(), unhandled.into());
        Ok([("add-", adds), ("handled-", handled)])
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_get_their_updates_in_turns() {
        let times = |place| {
            let turns = Turns { offers: 2, place };
            (0..4).map(move |sequence| turns.intended(sequence).as_micros())
        };
        assert!(times(0).eq([0, 100, 400, 500]));
        assert!(times(1).eq([200, 300, 600, 700]));
    }
}
