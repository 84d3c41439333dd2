//! The workload `slow-handler`: the effect of a slow handler on the producer. One producer offers
//! updates of uniformly distributed keys, one by one and without pauses, to one or several
//! consumers. The handler keeps its core busy, like a handler that computes. The control is a
//! handler that does nothing.

use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fill::{ChildError, filled};
use super::latency::{Latencies, MAX, P50, P99, P99_9};
use super::memory::MemoryMark;
use super::outcome::{add_outcome, expect};
use super::threads::run_threads;
use crate::data::{ListPlan, Source, build, uniform_key};
use crate::engines::{Counts, QueueEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, Row, output};

/// The times that a call of the handler takes in the variants, in microseconds.
const WORK: [u64; 3] = [0, 1, 10];
/// The numbers of consumers in the variants.
const CONSUMERS: [usize; 2] = [1, 4];
/// The limit for the number of events. With this many, the slowest handler is busy for a second.
const MOST_EVENTS: usize = 100_000;

/// Runs all variants, each on an engine of its own.
pub(super) fn run<S: Source, E: QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
) -> Result<(), ChildError> {
    let objects = args.objects;
    output::progress("building objects")?;
    let filling = build(source, &ListPlan::same(objects));
    let indexes =
        (0..MOST_EVENTS.min(2 * objects)).map(|event| uniform_key(event, objects)).collect();
    let events = build(source, &ListPlan::events(indexes));
    for micros in WORK {
        for consumers in CONSUMERS {
            let variant =
                format!("{micros}us-{consumers}-consumer{}-", if consumers > 1 { "s" } else { "" });
            output::progress(format!("slow-handler {variant}"))?;
            let engine = filled(&new, &filling);
            let offered = events.clone();

            let memory = MemoryMark::set(args);
            let (elapsed, counts, adds) =
                drive(&engine, offered, consumers, Duration::from_micros(micros));

            let mut extra = memory.fields();
            let expected = Counts::of_updates(events.len());
            expect(format_args!("slow-handler {variant}"), counts, expected)?;
            add_outcome::<S>(counts, &engine, &mut extra);
            extra.insert("events".into(), events.len().into());
            extra.insert("consumers".into(), consumers.into());
            let quantiles = [P50, P99, P99_9, MAX];
            let (add, handled) = (format!("{variant}add-"), format!("{variant}rate"));
            let mut rows = adds.rows(Workload::SlowHandler, &add, &quantiles, &extra);
            rows.push(Row::rate(Workload::SlowHandler, &handled, events.len(), elapsed, extra));
            output::rows(rows)?;
        }
    }
    Ok(())
}

/// Offers and handles all events. Returns the time, the counts, and the latencies of the offers.
fn drive<T: Send + Sync, E: QueueEngine<T>>(
    engine: &E,
    events: Vec<Arc<T>>,
    consumers: usize,
    work: Duration,
) -> (Duration, Counts, Latencies) {
    let consumer = || {
        let mut counts = Counts::default();
        engine.consume(|event| {
            counts.record(event);
            be_busy(work);
        });
        counts
    };
    let producer = || {
        let mut adds = Latencies::new();
        for event in events {
            let began = Instant::now();
            engine.update(event);
            adds.record(began.elapsed());
        }
        adds
    };
    let consumers = iter::repeat_n(consumer, consumers);
    let (elapsed, adds, handled) = run_threads(iter::once(producer), consumers, || engine.close());
    let counts = handled.into_iter().sum();
    (elapsed, counts, adds.into_iter().next().unwrap_or_else(Latencies::new))
}

/// Spins for the given time. If the thread loses its core for a moment, it spins less; this
/// affects few calls of the handler.
fn be_busy(work: Duration) {
    if work.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < work {
        std::hint::spin_loop();
    }
}
