//! The workload `events`: the rate of updates through a filled engine. The variants differ in the
//! distribution of the keys and in the number of threads. Updates are offered one by one, or in
//! bursts of 64, which an engine may take in one call. The measurement ends when the last consumer
//! has found the closed queue empty.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use super::fill::{ChildError, filled};
use super::memory::MemoryMark;
use super::outcome::{add_outcome, expect};
use super::threads::run_threads;
use crate::data::{ListPlan, Source, Zipf, build, uniform_key};
use crate::engines::{Counts, QueueEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, Row, output};

/// The numbers of producers in the variants. Each variant has as many consumers as producers.
const THREADS: [usize; 3] = [1, 2, 4];
/// The number of updates in a burst.
const BURST: usize = 64;

/// Runs all variants, each on an engine of its own.
pub(super) fn run<S: Source, E: QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
) -> Result<(), ChildError> {
    let objects = args.objects;
    output::progress("building objects")?;
    let filling = build(source, &ListPlan::same(objects));
    for keys in ["uniform", "zipf"] {
        output::progress(format!("building {keys} events"))?;
        let indexes = draw(keys, objects);
        let events = build(source, &ListPlan::events(indexes.clone()));
        for threads in THREADS {
            for burst in [1, BURST] {
                let variant =
                    format!("{keys}-{threads}x{threads}{}", if burst > 1 { "-burst" } else { "" });
                output::progress(format!("events {variant}"))?;
                let engine = filled(&new, &filling);
                let shares = split_by_producer(&events, &indexes, threads, burst);

                let memory = MemoryMark::set(args);
                let (elapsed, counts, pops) = drive(&engine, shares);

                let mut extra = memory.fields();
                let expected = Counts::of_updates(events.len());
                expect(format_args!("events {variant}"), counts, expected)?;
                add_outcome::<S>(counts, &engine, &mut extra);
                extra.insert("events".into(), events.len().into());
                extra.insert("consumers".into(), threads.into());
                extra.insert("deltas_per_pop".into(), ratio(events.len(), pops).into());
                let row = Row::rate(Workload::Events, &variant, events.len(), elapsed, extra);
                output::rows([row])?;
            }
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(super) fn ratio(count: usize, of: usize) -> f64 {
    count as f64 / of as f64
}

/// Draws the indexes of the objects to update, two updates for each object on average. `keys` names
/// the distribution: `uniform` or `zipf`.
fn draw(keys: &str, objects: usize) -> Arc<[usize]> {
    let events = 0..2 * objects;
    if keys == "zipf" {
        let zipf = Zipf::new(objects);
        events.map(|event| zipf.key(event)).collect()
    } else {
        events.map(|event| uniform_key(event, objects)).collect()
    }
}

/// The updates that one producer offers, one by one or in bursts.
enum Share<T> {
    Singly(Vec<Arc<T>>),
    InBursts(Vec<Vec<Arc<T>>>),
}

/// Divides the events among the producers by key. Each producer has all events of its keys, in
/// order, so that the updates of an object are never reordered.
fn split_by_producer<T>(
    events: &[Arc<T>],
    indexes: &[usize],
    producers: usize,
    burst: usize,
) -> Vec<Share<T>> {
    let mut shares = vec![Vec::new(); producers];
    for (event, index) in events.iter().zip(indexes) {
        shares[index % producers].push(event.clone());
    }
    let cut = |share: Vec<Arc<T>>| match burst {
        1 => Share::Singly(share),
        _ => Share::InBursts(share.chunks(burst).map(<[_]>::to_vec).collect()),
    };
    shares.into_iter().map(cut).collect()
}

/// Runs producers and consumers until everything is handled. Returns the time, the counts, and how
/// often a key was popped.
fn drive<T: Send + Sync, E: QueueEngine<T>>(
    engine: &E,
    shares: Vec<Share<T>>,
) -> (Duration, Counts, usize) {
    let consumer = || {
        let mut counts = Counts::default();
        let pops = engine.consume(|event| counts.record(event));
        (counts, pops)
    };
    let consumers = iter::repeat_n(consumer, shares.len());
    let producers = shares.into_iter().map(|share| {
        move || match share {
            Share::Singly(events) => events.into_iter().for_each(|event| engine.update(event)),
            Share::InBursts(calls) => calls.into_iter().for_each(|call| engine.update_burst(call)),
        }
    });
    let (elapsed, _, handled) = run_threads(producers, consumers, || engine.close());
    let (counts, pops): (Vec<_>, Vec<_>) = handled.into_iter().unzip();
    (elapsed, counts.into_iter().sum(), pops.into_iter().sum())
}
