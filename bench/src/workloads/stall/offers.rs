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

/// The usual length of a slice of time in which one of the two queues gets updates.
const SLICE: Duration = Duration::from_millis(100);

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
    slices: Slices,
    /// The number of updates that were offered. `handled` counts those that were handled.
    made: AtomicUsize,
    handled: AtomicUsize,
    /// The measurements of each update.
    records: Vec<Offer>,
}

/// The times of the offers of a queue that has every second slice.
struct Slices {
    /// The number of offers in a slice.
    offers: usize,
    /// 0 if the first slice is of this queue, else 1.
    place: usize,
}

impl Slices {
    fn intended(&self, sequence: usize) -> Duration {
        let earlier_slices = 2 * (sequence / self.offers) + self.place;
        let earlier = earlier_slices * self.offers + sequence % self.offers;
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
    /// Creates the updates of the queue whose slices come first (`place` 0) or second (1).
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
            slices: Slices { offers: fit(length.min(SLICE)), place },
            made: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            records: (0..offers).map(|_| Offer::default()).collect(),
        }
    }

    /// Offers each update at its time, or as soon after it as possible. Updates that have not been
    /// offered by the end of its last slice are left out.
    pub fn offer(&self, target: &impl QueueEngine<T>) {
        let start = self.relists.clock();
        let end = nanoseconds(self.slices.intended(self.records.len() - 1) + OFFER_EVERY);
        for (sequence, (object, offer)) in self.objects.iter().zip(&self.records).enumerate() {
            wait_until(start, self.slices.intended(sequence));
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

    /// Returns the number of offered updates.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the latencies of the offers that started during a relist, and the latencies of
    /// their handling from the intended time. An update that was not handled until `over` counts
    /// with the time until then, which is a lower limit. Inserts the numbers of offers and of
    /// unhandled updates into `extra`. Returns an error if no offer started during a relist.
    pub fn figures(
        &self,
        over: u64,
        extra: &mut Map<String, Value>,
    ) -> Result<[(&'static str, Latencies); 2], ChildError> {
        let made = self.made();
        let (mut adds, mut handled, mut unhandled) = (Latencies::new(), Latencies::new(), 0);
        for (sequence, offer) in self.records[..made].iter().enumerate() {
            if !offer.during_relist.load(Ordering::Relaxed) {
                continue;
            }
            let at = match offer.handled_at.load(Ordering::Relaxed) {
                at if at == 0 || at > over => {
                    unhandled += 1;
                    over
                }
                at => at,
            };
            adds.record(Duration::from_nanos(offer.took.load(Ordering::Relaxed)));
            handled.record(Duration::from_nanos(at).saturating_sub(self.slices.intended(sequence)));
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

/// Waits until every offered update of both queues is handled, at most one minute. Returns the time
/// then.
pub fn wait<T: Send + Sync>(offers: &[Offers<'_, T>; 2], relists: &Relists) -> u64 {
    let end = Instant::now() + WAIT_FOR_OFFERS;
    let is_waiting =
        |offers: &Offers<'_, T>| offers.handled.load(Ordering::Relaxed) < offers.made();
    while offers.iter().any(is_waiting) && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    relists.now()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Workload;
    use crate::workloads::latency::MAX;

    #[test]
    fn the_queues_get_their_updates_in_alternate_slices() {
        let times = |place| {
            let slices = Slices { offers: 2, place };
            (0..5).map(move |sequence| slices.intended(sequence).as_micros())
        };
        assert!(times(0).eq([0, 100, 400, 500, 800]));
        assert!(times(1).eq([200, 300, 600, 700, 1000]));
    }

    #[test]
    fn an_update_that_is_handled_after_the_end_counts_as_unhandled() {
        const OVER: u64 = 1_000_000;
        let relists = Relists::default();
        let records = [300_000, OVER + 1, 0].map(|at| Offer {
            during_relist: AtomicBool::new(true),
            took: AtomicU64::new(50),
            handled_at: AtomicU64::new(at),
        });
        let offers = Offers {
            objects: (0..3).map(Arc::new).collect(),
            relists: &relists,
            slices: Slices { offers: 3, place: 0 },
            made: AtomicUsize::new(3),
            handled: AtomicUsize::new(2),
            records: records.into(),
        };
        let mut extra = Map::new();
        let [_, (_, handled)] = offers.figures(OVER, &mut extra).unwrap();
        assert_eq!((&extra["offers"], &extra["unhandled"]), (&3.into(), &2.into()));
        let longest = handled.rows(Workload::Stall, "", &[MAX], &Map::new()).remove(0).value;
        assert!((longest - 900e-6).abs() < 5e-6, "from the intended time until the end: {longest}");
    }
}
