//! How long an update and its handling take while relists go on back to back in the same queue, and then, as a control,
//! in an idle twin beside it: that is what sharing two cores costs by itself. The control keeps the first queue's
//! consumer, so that the machine has the same to do.

mod offers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Map;

use self::offers::Offers;
use super::Workload;
use super::child::{ChildArgs, ChildError, filled};
use super::latency::{MAX, P50, P99, P99_9, Quantile};
use super::memory::MemoryMark;
use super::pace::exact_wake_ups;
use crate::data::{Plan, Source, build};
use crate::engines::{Event, QueueEngine};
use crate::protocol::{Line, Output};

const QUANTILES: [Quantile; 4] = [P50, P99, P99_9, MAX];

/// Runs both phases.
pub(super) fn run<S: Source, E: QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
    out: &mut Output,
) -> Result<(), ChildError> {
    let objects = args.objects;
    out.progress("building lists")?;
    let lists = [build(source, &Plan::same(objects)), build(source, &Plan::same(objects))];
    let hot = build(source, &Plan::hot(objects));
    let (first, twin) = (filled(&new, &lists[0]), filled(&new, &hot));
    let (stalled, control) = (Offers::new(source, args), Offers::new(source, args));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (engine, offers) in [(&first, &stalled), (&twin, &control)] {
            let stop = &stop;
            scope.spawn(move || {
                engine.consume(|event| {
                    if let Event::Updated { new, .. } = event
                        && !stop.load(Ordering::Relaxed)
                    {
                        offers.note_handled::<S>(new);
                    }
                });
            });
        }
        let mut phases = || -> Result<(), ChildError> {
            for (prefix, target, offers) in [("", &first, &stalled), ("control-", &twin, &control)] {
                out.progress(&format!("stall {prefix}"))?;
                let memory = MemoryMark::set(objects);
                let replaces = offer_during_replaces(&first, &lists, target, offers, args.length);
                offers.wait();
                let mut extra = Map::new();
                memory.add_to(&mut extra);
                extra.insert("replaces".into(), replaces.into());
                for (what, latencies) in offers.figures(&mut extra)? {
                    let rows = latencies.rows(Workload::Stall, &format!("{prefix}{what}"), &QUANTILES, &extra);
                    rows.into_iter().try_for_each(|row| out.line(&Line::Row(row)))?;
                }
            }
            Ok(())
        };
        let result = phases();
        // Whatever went wrong, the consumers must end for the scope to.
        stop.store(true, Ordering::Relaxed);
        first.close();
        twin.close();
        result
    })
}

/// Replaces back to back in one queue for as long as the offers to the target go on; says how many replaces were made.
fn offer_during_replaces<T: Send + Sync, E: QueueEngine<T>>(
    first: &E,
    lists: &[Vec<Arc<T>>; 2],
    target: &E,
    offers: &Offers<T>,
    length: Duration,
) -> usize {
    let stop = &AtomicBool::new(false);
    offers.start();
    thread::scope(|scope| {
        let replacer = scope.spawn(move || {
            let mut replaces = 0;
            while !stop.load(Ordering::Relaxed) {
                let list = lists[(replaces + 1) % 2].clone();
                offers.during_replace(|| first.replace(list, "1"));
                replaces += 1;
            }
            replaces
        });
        let producer = scope.spawn(move || {
            exact_wake_ups();
            offers.offer(target, length);
        });
        let offering = producer.join();
        stop.store(true, Ordering::Relaxed);
        let replacing = replacer.join();
        match (offering, replacing) {
            (Ok(()), Ok(count)) => count,
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}
