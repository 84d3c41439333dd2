//! The workload `stall`: the latency of an update and of its handling during back-to-back relists
//! of the same queue. The control measures the same latencies in a second queue that is idle
//! otherwise, while the first queue relists. The control shows how much of the latencies comes only
//! from sharing the cores with relists. The consumer of the first queue keeps running in the
//! control, so that the machine has the same work.
//!
//! The numbers of offers and relists depend on the engine. So at the end each queue gets its first
//! list once more, and is drained. Then all stores must be equal, and each handler must have been
//! notified of every object of every list and of every offer.

mod offers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use self::offers::Offers;
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
    let (stalled, control) = (Offers::new(source, args), Offers::new(source, args));
    let queues = [(&first, &stalled, &lists[0]), (&twin, &control, &hot)];
    let mut measured = Vec::new();
    let mut listed = [0, hot.len()];
    let counts = thread::scope(|scope| {
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
        let mut phases = || -> Result<(), ChildError> {
            for (prefix, (target, offers, _)) in ["", "control-"].into_iter().zip(queues) {
                output::progress(format!("stall {prefix}"))?;
                let memory = MemoryMark::set(args);
                let length = args.settings.length;
                let replaces = offer_during_replaces(&first, &lists, target, offers, length);
                offers.wait();
                let mut extra = memory.fields();
                extra.insert("replaces".into(), replaces.into());
                listed[0] += replaces * objects;
                let figures = offers.figures(&mut extra)?;
                measured.push((prefix, figures, extra));
            }
            Ok(output::progress("stall, the last lists")?)
        };
        let result = phases();
        // After an error, too: the scope ends only when the consumers do.
        for (engine, _, list) in queues {
            engine.replace(list.clone(), "1");
            engine.close();
        }
        let counts = consumers.map(|consumer| unwrap_join(consumer.join()));
        result.map(|()| counts)
    })?;
    listed[0] += objects;

    for (at, (prefix, figures, mut extra)) in measured.into_iter().enumerate() {
        let (engine, offers, _) = queues[at];
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

/// Relists the queue `first` back to back for `length`, while updates are offered to the queue
/// `target`: the same queue in the measurement, and the second queue in the control. Returns the
/// number of relists.
fn offer_during_replaces<T: Send + Sync, E: QueueEngine<T>>(
    first: &E,
    lists: &[Vec<Arc<T>>; 2],
    target: &E,
    offers: &Offers<T>,
    length: Duration,
) -> usize {
    let stop = &AtomicBool::new(false);
    offers.clock();
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
        unwrap_join(offering);
        unwrap_join(replacing)
    })
}
