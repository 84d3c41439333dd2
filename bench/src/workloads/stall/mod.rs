//! The workload `stall`: the latency of an update and of its handling during back-to-back relists
//! of the same queue. The control measures the same latencies in a second queue that is idle
//! otherwise, while the first queue relists. The control shows how much of the latencies comes only
//! from sharing the cores with relists.
//!
//! The relists continue without a pause. The two queues get their updates in alternate slices of a
//! tenth of a second, so that a slow time of the machine affects both. Each queue has a producer of
//! its own: an offer that one queue blocks does not delay those of the other queue. One relist
//! precedes the first slice, so that memory is touched before it.
//!
//! The numbers of offers and relists depend on the engine. So at the end each queue gets its first
//! list once more, and is drained. Then all stores must be equal, and each handler must have been
//! notified of every object of every list and of every offer.

mod offers;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use self::offers::{Offers, Relists};
use super::fill::{ChildError, filled};
use super::latency::{MAX, P50, P99, P99_9, Quantile};
use super::memory::MemoryMark;
use super::outcome::{add_store, expect};
use super::pace::exact_wake_ups;
use super::threads::unwrap_join;
use crate::data::{ListPlan, Source, build};
use crate::engines::{Counts, Event, QueueEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, output};

const QUANTILES: [Quantile; 4] = [P50, P99, P99_9, MAX];

/// Runs the measurement and the control.
pub(super) fn run<S: Source, E: QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
) -> Result<(), ChildError> {
    let objects = args.objects;
    output::progress("building lists")?;
    let lists = [build(source, &ListPlan::same(objects)), build(source, &ListPlan::same(objects))];
    let hot = build(source, &ListPlan::hot(objects));
    let (first, twin) = (filled(&new, &lists[0]), filled(&new, &hot));
    let relists = Relists::default();
    let offers = [0, 1].map(|place| Offers::new(source, args, &relists, place));
    let queues = [(&first, &offers[0], &lists[0]), (&twin, &offers[1], &hot)];
    let (replaces, over, extra, counts) = thread::scope(|scope| {
        let consumers = queues.map(|(engine, offers, _)| {
            scope.spawn(move || {
                let mut counts = Counts::default();
                engine.consume(|event| {
                    counts.record(event);
                    if let Event::Updated(new) = event {
                        offers.record_handled::<S>(new);
                    }
                });
                counts
            })
        });
        let measure = || -> Result<_, ChildError> {
            output::progress("stall")?;
            let memory = MemoryMark::set(args);
            let targets = queues.map(|(engine, offers, _)| (engine, offers));
            let replaces = relist_during_offers(&first, &lists, &relists, targets);
            let over = offers::wait(&offers, &relists);
            let mut extra = memory.fields();
            extra.insert("replaces".into(), replaces.into());
            output::progress("stall, the last lists")?;
            for (engine, _, list) in queues {
                engine.replace(list.clone(), "1");
            }
            Ok((replaces, over, extra))
        };
        let result = catch_unwind(AssertUnwindSafe(measure));
        // After an error or a panic, too: the scope ends only when the consumers do.
        for (engine, ..) in queues {
            engine.close();
        }
        let counts = consumers.map(|consumer| unwrap_join(consumer.join()));
        let (replaces, over, extra) = result.unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok::<_, ChildError>((replaces, over, extra, counts))
    })?;
    let listed = [(replaces + 1) * objects, hot.len()];

    for (at, prefix) in ["", "control-"].into_iter().enumerate() {
        let (engine, offers, _) = queues[at];
        let mut extra = extra.clone();
        let figures = offers.figures(over, &mut extra)?;
        // An engine that skips unchanged objects is not checked: its count depends on the offers,
        // which determine the objects that a relist finds unchanged.
        if !E::SKIPS_UNCHANGED {
            let expected = Counts::of_updates(listed[at] + offers.made());
            expect(format_args!("stall {prefix}"), counts[at], expected)?;
        }
        add_store::<S>(engine, &mut extra);
        for (figure, latencies) in figures {
            let variant = format!("{prefix}{figure}");
            output::rows(latencies.rows(Workload::Stall, &variant, &QUANTILES, &extra))?;
        }
    }
    Ok(())
}

/// Relists the queue `first` back to back until all updates are offered to their queues. Returns
/// the number of relists.
fn relist_during_offers<T: Send + Sync, E: QueueEngine<T>>(
    first: &E,
    lists: &[Vec<Arc<T>>; 2],
    relists: &Relists,
    targets: [(&E, &Offers<'_, T>); 2],
) -> usize {
    let stop = &AtomicBool::new(false);
    first.replace(lists[1].clone(), "1");
    relists.clock();
    thread::scope(|scope| {
        let replacer = scope.spawn(move || {
            let mut replaces = 1;
            while !stop.load(Ordering::Relaxed) {
                let list = lists[(replaces + 1) % 2].clone();
                relists.during(|| first.replace(list, "1"));
                replaces += 1;
            }
            replaces
        });
        let producers = targets.map(|(target, offers)| {
            scope.spawn(move || {
                exact_wake_ups();
                offers.offer(target);
            })
        });
        let offering = producers.map(thread::ScopedJoinHandle::join);
        stop.store(true, Ordering::Relaxed);
        let replacing = replacer.join();
        offering.into_iter().for_each(unwrap_join);
        unwrap_join(replacing)
    })
}
