//! Measures the hot paths with criterion.
//!
//! On the engines `deltafifo`, `mutex` and `dashmap` it measures an update of a known idle key, an
//! update of a pending key, and a pop that applies. A relist of 100,000 objects is measured on
//! these engines and on two variants of `deltafifo`: one skips unchanged objects, and one uses one
//! thread. The relist is also measured on the engine `floor`, which walks a list in two ways; the
//! times of that engine are lower bounds.
//!
//! kube-rs' store is not measured: its engine keeps every list until the end, so its memory would
//! grow with the number of iterations, which criterion chooses. Every engine's store knows 100,000
//! objects. Inputs are prepared, and results dropped, outside the measured time. If gnuplot
//! is installed, plots are in `criterion/report` of the build directory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{
    Bencher, BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use deltafifo_bench::data::{Generated, ListPlan, Object, ObjectAccess, build};
use deltafifo_bench::engines::dashmap::DashMapEngine;
use deltafifo_bench::engines::deltafifo::DeltaFifoEngine;
use deltafifo_bench::engines::floor::{Floor, Walk};
use deltafifo_bench::engines::mutex_engine::MutexEngine;
use deltafifo_bench::engines::{ListEngine, QueueEngine};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KNOWN: usize = 100_000;
/// The number of operations in a round. A single operation is shorter than a reading of the clock,
/// so rounds are measured.
const ROUND: usize = 1_000;

type DeltaFifo = DeltaFifoEngine<Object, ObjectAccess, false>;

fn objects() -> Vec<Arc<Object>> {
    build(&Generated { objects: KNOWN }, &ListPlan::same(KNOWN))
}

/// Measures `rounds` rounds of `work`. The calls of `before` and `after` are not measured, nor is
/// the drop of the result of `work`.
fn timed<S, R>(
    rounds: u64,
    mut before: impl FnMut(u64) -> S,
    mut work: impl FnMut(S) -> R,
    mut after: impl FnMut(R),
) -> Duration {
    let mut total = Duration::ZERO;
    for round in 0..rounds {
        let state = before(round);
        let start = Instant::now();
        let left = work(state);
        total += start.elapsed();
        after(left);
    }
    total
}

/// Returns the updates of a round. Successive rounds update different keys, which are spread over
/// the table.
fn updates(objects: &[Arc<Object>], round: u64) -> Vec<Arc<Object>> {
    let first = usize::try_from(round).unwrap_or(0) * ROUND;
    (first..first + ROUND).map(|at| objects[at * 7919 % KNOWN].clone()).collect()
}

fn offer(engine: &impl QueueEngine<Object>, updates: Vec<Arc<Object>>) {
    for object in updates {
        engine.update(object);
    }
}

fn update_idle<E: QueueEngine<Object>>(bencher: &mut Bencher<'_>, engine: &E) {
    let objects = objects();
    let drain = |()| _ = engine.drain();
    bencher.iter_custom(|rounds| {
        let prepare = |round| updates(&objects, round);
        timed(rounds, prepare, |updates| offer(engine, updates), drain)
    });
}

fn update_pending<E: QueueEngine<Object>>(bencher: &mut Bencher<'_>, engine: &E) {
    let objects = objects();
    let drain = |()| _ = engine.drain();
    bencher.iter_custom(|rounds| {
        let prepare = |round| {
            offer(engine, updates(&objects, round));
            updates(&objects, round)
        };
        timed(rounds, prepare, |updates| offer(engine, updates), drain)
    });
}

fn pop<E: QueueEngine<Object>>(bencher: &mut Bencher<'_>, engine: &E) {
    let objects = objects();
    bencher.iter_custom(|rounds| {
        let pop_all = |()| while engine.try_pop(|_| ()) {};
        timed(rounds, |round| offer(engine, updates(&objects, round)), pop_all, drop)
    });
}

/// Measures relists on as many threads as the engine wants. The replaced list and the new one
/// outlive the measured time, so that no engine pays for freeing objects.
fn relist<E: ListEngine<Object, List = Vec<Arc<Object>>>>(bencher: &mut Bencher<'_>, engine: &E) {
    let mut known = objects();
    engine.replace(known.clone(), "1");
    engine.drain();
    bencher.iter_custom(|rounds| {
        let prepare = |_| {
            let list = objects();
            let old = std::mem::replace(&mut known, list.clone());
            (list, old)
        };
        let relist = |(list, old)| {
            engine.replace(list, "2");
            engine.drain();
            old
        };
        timed(rounds, prepare, relist, drop)
    });
}

/// Runs one measurement over every engine with a queue.
macro_rules! compare {
    ($group:expr, $measurement:ident) => {
        measure($group, "deltafifo", &DeltaFifo::new(ObjectAccess), $measurement);
        measure($group, "mutex", &MutexEngine::new(ObjectAccess), $measurement);
        measure($group, "dashmap", &DashMapEngine::new(ObjectAccess), $measurement);
    };
}

/// Fills the store of an engine, and runs the measurement `measure` on the engine.
fn measure<E: ListEngine<Object, List = Vec<Arc<Object>>>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    engine: &E,
    measure: impl Fn(&mut Bencher<'_>, &E),
) {
    engine.replace(objects(), "1");
    engine.drain();
    group.bench_function(name, |bencher| measure(bencher, engine));
}

fn one_key(criterion: &mut Criterion) {
    compare!(&mut rounds_of(criterion, "update, known and idle"), update_idle);
    compare!(&mut rounds_of(criterion, "update, pending"), update_pending);
    compare!(&mut rounds_of(criterion, "pop and apply, one by one"), pop);
}

fn rounds_of<'a>(criterion: &'a mut Criterion, operation: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(operation);
    group.throughput(Throughput::Elements(ROUND as u64));
    group
}

fn whole_list(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("relist of 100,000 known objects");
    // Flat, since an iteration is long.
    group
        .throughput(Throughput::Elements(KNOWN as u64))
        .sampling_mode(SamplingMode::Flat)
        .sample_size(20);
    compare!(&mut group, relist);
    let skip = DeltaFifoEngine::<_, _, true>::new(ObjectAccess);
    measure(&mut group, "deltafifo-skip", &skip, relist);
    measure(&mut group, "deltafifo-1-thread", &DeltaFifo::one_thread(ObjectAccess), relist);
    for (name, walk) in
        [("floor, in order", Walk::InOrder), ("floor, partitioned", Walk::Partitioned)]
    {
        measure(&mut group, name, &Floor::new(ObjectAccess, walk), relist);
    }
}

criterion_group!(benches, one_key, whole_list);
criterion_main!(benches);
