//! The hot paths under criterion: an update of a known idle key, an update of a pending key, a pop that applies, and a
//! relist of 100,000. Everything is measured over a fused store that knows 100,000 objects; what a measurement needs or
//! leaves behind is prepared and released outside the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_bench::data::{Generated, Object, ObjectAccess, Plan, build};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KNOWN: usize = 100_000;
/// Single operations are measured in rounds of so many, since one is shorter than a look at the clock.
const ROUND: usize = 1_000;

type Fifo = DeltaFifo<Object, ObjectAccess>;

fn objects() -> Vec<Arc<Object>> {
    build(&Generated { objects: KNOWN }, &Plan::same(KNOWN))
}

/// A queue over a store that knows all objects.
fn filled() -> Fifo {
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjectAccess)).build().expect("no index is given twice");
    let fifo = DeltaFifo::over(store).build();
    fifo.replace(objects(), "1").expect("every object has a name");
    drain(&fifo);
    fifo
}

fn drain(fifo: &Fifo) {
    while let Some(mut batch) = fifo.try_pop_batch(1024) {
        while let Some(mut item) = batch.next() {
            item.apply(|_| ()).expect("the store is fused");
        }
    }
}

/// Time of `rounds` rounds of `work`, with `before` and `after` of each outside the clock.
fn timed<S>(
    rounds: u64,
    mut before: impl FnMut(u64) -> S,
    mut work: impl FnMut(S),
    mut after: impl FnMut(),
) -> Duration {
    let mut total = Duration::ZERO;
    for round in 0..rounds {
        let state = before(round);
        let start = Instant::now();
        work(state);
        total += start.elapsed();
        after();
    }
    total
}

/// The updates of a round: other keys in every round, spread over the table.
fn updates(objects: &[Arc<Object>], round: u64) -> Vec<Arc<Object>> {
    let first = usize::try_from(round).unwrap_or(0) * ROUND;
    (first..first + ROUND).map(|at| objects[at * 7919 % KNOWN].clone()).collect()
}

fn single_operations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one key");
    group.throughput(Throughput::Elements(ROUND as u64));
    let objects = objects();
    let offer = |fifo: &Fifo, updates: Vec<Arc<Object>>| {
        for object in updates {
            fifo.update(object).expect("every object has a name");
        }
    };

    let fifo = filled();
    group.bench_function("update, known and idle", |bencher| {
        bencher.iter_custom(|rounds| {
            timed(rounds, |round| updates(&objects, round), |updates| offer(&fifo, updates), || drain(&fifo))
        });
    });
    group.bench_function("update, pending", |bencher| {
        let prepare = |round| {
            offer(&fifo, updates(&objects, round));
            updates(&objects, round)
        };
        bencher.iter_custom(|rounds| timed(rounds, prepare, |updates| offer(&fifo, updates), || drain(&fifo)));
    });
    group.bench_function("pop and apply, one by one", |bencher| {
        let pop = |()| {
            while let Some(mut item) = fifo.try_pop() {
                item.apply(|_| ()).expect("the store is fused");
            }
        };
        bencher.iter_custom(|rounds| timed(rounds, |round| offer(&fifo, updates(&objects, round)), pop, || ()));
    });
    group.bench_function("pop and apply, in a batch", |bencher| {
        let pop = |()| drain(&fifo);
        bencher.iter_custom(|rounds| timed(rounds, |round| offer(&fifo, updates(&objects, round)), pop, || ()));
    });
    group.finish();
}

fn relist(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("relist of 100,000 known objects");
    group.throughput(Throughput::Elements(KNOWN as u64)).sample_size(20);
    let fifo = filled();
    group.bench_function("join, drain and free the old, one thread", |bencher| {
        bencher.iter_custom(|rounds| {
            let relist = |list| {
                fifo.replace(list, "2").expect("every object has a name");
                drain(&fifo);
            };
            timed(rounds, |_| objects(), relist, || ())
        });
    });
    group.finish();
}

criterion_group!(benches, single_operations, relist);
criterion_main!(benches);
