//! Times the hot paths of a queue fused with its store with criterion. `ci/instructions.sh` counts
//! the instructions of most of them, and `relist` compares the engines.
//!
//! The store knows 100,000 objects. Inputs are created, and results dropped, outside the measured
//! time. If gnuplot is installed, plots are in `criterion/report` of the build directory.

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use deltafifo::{DeltaFifo, Indexer, KeyFunc, NAMESPACE_INDEX};
use deltafifo_bench::data::{Generated, Object, ObjectAccess, Source};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KNOWN: usize = 100_000;
/// The number of operations in a measured round. A single operation is shorter than a reading of
/// the clock.
const ROUND: usize = 1_000;

type Fifo = DeltaFifo<Object, ObjectAccess>;

fn objects() -> Vec<Arc<Object>> {
    let source = Generated { objects: KNOWN };
    (0..KNOWN).map(|index| Arc::new(source.make(index, None))).collect()
}

fn offer(fifo: &Fifo, updates: Vec<Arc<Object>>) {
    for object in updates {
        fifo.update(object).expect("every object has a name");
    }
}

fn drain(fifo: &Fifo) {
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).expect("the store is fused");
    }
}

fn hot_paths(criterion: &mut Criterion) {
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjectAccess)).build();
    let fifo = DeltaFifo::over(store.expect("no index is given twice")).build();
    let known = objects();
    fifo.replace(known.clone(), "1").expect("every object has a name");
    drain(&fifo);
    let keys: Vec<_> = known.iter().map(|object| fifo.key_of(&**object).expect("a name")).collect();

    // Successive rounds use different objects, which are spread over the table.
    let mut spread = (0..).map(|turn| known[turn * 7919 % KNOWN].clone());
    let mut updates = || spread.by_ref().take(ROUND).collect::<Vec<_>>();
    let size = BatchSize::PerIteration;

    let mut group = criterion.benchmark_group("singly");
    group.throughput(Throughput::Elements(ROUND as u64));
    group.bench_function("update", |bencher| {
        let prepare = || (drain(&fifo), updates()).1;
        bencher.iter_batched(prepare, |updates| offer(&fifo, updates), size);
    });
    group.bench_function("pop and apply", |bencher| {
        bencher.iter_batched(|| offer(&fifo, updates()), |()| drain(&fifo), size);
    });
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            keys.iter().step_by(KNOWN / ROUND).all(|key| fifo.store().get_by_key(key).is_some())
        });
    });
    group.finish();

    criterion.bench_function("select 200 objects of a namespace", |bencher| {
        bencher.iter(|| fifo.store().by_index(NAMESPACE_INDEX, "team-0007"));
    });
}

criterion_group!(benches, hot_paths);
criterion_main!(benches);
