//! Counts the instructions of the hot paths with callgrind. On a shared machine the times of two
//! runs differ, but the numbers of instructions do not. `ci/instructions.sh` compares the counts
//! with `bench/instructions.txt`.
//!
//! Each count is the number of instructions of 10,000 operations, one for every object of a fused
//! store. The hash has a different seed in every run, so different keys share a bucket; over 10,000
//! keys this has no effect on the sum. The inputs are created before, and dropped after, the
//! counted part.
#![expect(missing_docs, reason = "the macros make items without")]

use std::sync::Arc;

use deltafifo::{DeltaFifo, Indexer, IndexerBuilder, KeyFunc, Labels};
use deltafifo_bench::data::{APP, Generated, Object, ObjectAccess, Source, write_key};
use gungraun::{library_benchmark, library_benchmark_group, main};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KNOWN: usize = 10_000;

/// A queue over a store that knows all objects. `known` keeps them alive, so that replacing them in
/// the store does not free them.
struct Filled {
    fifo: DeltaFifo<Object, ObjectAccess>,
    known: Vec<Arc<Object>>,
}

/// Creates every object once, on one thread, so that the result does not depend on the number of
/// cores.
fn objects() -> Vec<Arc<Object>> {
    let source = Generated { objects: KNOWN };
    (0..KNOWN).map(|index| Arc::new(source.make(index, None))).collect()
}

fn keys() -> Vec<String> {
    let key = |object: Arc<Object>| {
        let mut key = String::new();
        write_key(&ObjectAccess, &*object, &mut key);
        key
    };
    objects().into_iter().map(key).collect()
}

type Builder = IndexerBuilder<Object, ObjectAccess>;

fn idle() -> Filled {
    filled(|store| store)
}

fn filled(indexes: impl FnOnce(Builder) -> Builder) -> Filled {
    let store = indexes(Indexer::builder(KeyFunc::meta_namespace(ObjectAccess)))
        .build()
        .expect("no index is given twice");
    let filled = Filled { fifo: DeltaFifo::over(store).build(), known: objects() };
    filled.fifo.replace(filled.known.clone(), "1").expect("every object has a name");
    filled.pop_batches();
    filled
}

fn pending() -> Filled {
    pending_over(|store| store)
}

fn pending_over(indexes: impl FnOnce(Builder) -> Builder) -> Filled {
    let filled = filled(indexes);
    filled.update(objects());
    filled
}

/// Returns a queue over a store with an index of a label, which the pending updates do not change.
fn labelled() -> Filled {
    pending_over(|store| store.label(APP))
}

/// Returns a queue as [`labelled`] does, but with a function of the user for the index.
fn indexed() -> Filled {
    let app = |object: &Object| ObjectAccess.label(object, APP).map(str::to_owned);
    pending_over(|store| store.index(APP, move |object| Ok(app(object).into_iter().collect())))
}

impl Filled {
    fn update(&self, updates: Vec<Arc<Object>>) {
        for object in updates {
            self.fifo.update(object).expect("every object has a name");
        }
    }

    fn pop_batches(&self) {
        while let Some(mut batch) = self.fifo.try_pop_batch(64) {
            while let Some(mut item) = batch.next() {
                item.apply(|_| ()).expect("the store is fused");
            }
        }
    }
}

#[library_benchmark]
#[bench::idle(idle(), objects())]
#[bench::pending(pending(), objects())]
fn update(filled: Filled, updates: Vec<Arc<Object>>) -> Filled {
    filled.update(updates);
    filled
}

#[library_benchmark]
#[bench::pending(pending())]
#[bench::labelled(labelled())]
#[bench::indexed(indexed())]
fn pop(filled: Filled) -> Filled {
    while let Some(mut item) = filled.fifo.try_pop() {
        item.apply(|_| ()).expect("the store is fused");
    }
    filled
}

#[library_benchmark]
#[bench::pending(pending())]
fn pop_batch(filled: Filled) -> Filled {
    filled.pop_batches();
    filled
}

#[library_benchmark]
#[bench::idle(idle(), objects())]
fn relist(filled: Filled, list: Vec<Arc<Object>>) -> Filled {
    filled.fifo.replace(list, "2").expect("every object has a name");
    filled
}

#[library_benchmark]
#[bench::idle(idle(), keys())]
fn get(filled: Filled, keys: Vec<String>) -> (Filled, Vec<String>) {
    let store = filled.fifo.store();
    assert!(keys.iter().all(|key| store.get_by_key(key).is_some()));
    (filled, keys)
}

library_benchmark_group!(name = hot_paths, benchmarks = [update, pop, pop_batch, relist, get]);
main!(library_benchmark_groups = hot_paths);
