//! The updates of one phase of the workload `stall`: the measurement or the control (see the
//! parent module). They are created in advance, and offered at fixed times whether or not the
//! earlier offers have returned (an open loop). The handler recognises them by their versions. All
//! times are in nanoseconds since the start.

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

/// The updates of one phase, and their measurements.
pub struct Offers<T> {
    objects: Vec<Arc<T>>,
    started: OnceLock<Instant>,
    /// Whether a relist is running.
    replacing: AtomicBool,
    /// The number of updates that were offered. `handled` counts those that were handled.
    made: AtomicUsize,
    handled: AtomicUsize,
    /// The measurements of each update.
    records: Vec<Offer>,
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

impl<T: Send + Sync> Offers<T> {
    pub fn new<S: Source<Object = T>>(source: &S, args: &ChildArgs) -> Self {
        let offers = usize::try_from(args.settings.length.as_nanos() / OFFER_EVERY.as_nanos())
            .unwrap_or(usize::MAX)
            .max(1);
        Self {
            objects: build(source, &ListPlan::offers(offers, args.objects)),
            started: OnceLock::new(),
            replacing: AtomicBool::new(false),
            made: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            records: (0..offers).map(|_| Offer::default()).collect(),
        }
    }

    /// Returns the start of the clock that all times refer to. The first call starts the clock.
    pub fn clock(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    fn now(&self) -> u64 {
        nanoseconds(self.clock().elapsed())
    }

    /// Runs a relist. Only offers that start during a relist are measured.
    pub fn during_replace(&self, replace: impl FnOnce()) {
        self.replacing.store(true, Ordering::SeqCst);
        replace();
        self.replacing.store(false, Ordering::SeqCst);
    }

    /// Offers each update at its time, or as soon after it as possible. Updates that have not been
    /// offered by the end of `length` are left out: no relist runs after that time, so they would
    /// not be measured.
    pub fn offer(&self, target: &impl QueueEngine<T>, length: Duration) {
        let (start, length) = (self.clock(), nanoseconds(length));
        for (sequence, (object, offer)) in self.objects.iter().zip(&self.records).enumerate() {
            wait_until(start, intended(sequence));
            let object = object.clone();
            let began = self.now();
            if began >= length {
                return;
            }
            offer.during_relist.store(self.replacing.load(Ordering::SeqCst), Ordering::Relaxed);
            target.update(object);
            offer.took.store(self.now() - began, Ordering::Relaxed);
            self.made.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that an update was handled. Only updates that [`offer`](Self::offer) offers have a
    /// version that starts with an `e`; all other versions are numbers.
    pub fn record_handled<S: Source<Object = T>>(&self, object: &Arc<T>) {
        let number = |version: &str| version.strip_prefix('e')?.parse::<usize>().ok();
        let sequence = S::Meta::default().version(object).and_then(number);
        if let Some(offer) = sequence.and_then(|sequence| self.records.get(sequence)) {
            offer.handled_at.store(self.now(), Ordering::Relaxed);
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
        let (now, made) = (self.now(), self.made());
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
            handled.record(Duration::from_nanos(at).saturating_sub(intended(sequence)));
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

fn intended(sequence: usize) -> Duration {
    OFFER_EVERY * u32::try_from(sequence).unwrap_or(u32::MAX)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
