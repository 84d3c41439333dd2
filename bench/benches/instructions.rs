//! How many instructions the hot paths take, counted by callgrind: time does not repeat on a
//! shared machine, instructions do. `ci/instructions.sh` compares them with
//! `bench/instructions.txt`.
//!
//! Each count is that of 10,000 operations, one for every object of a fused store. The seed of the
//! hash is another in every run, and with it which keys share a bucket; over so many keys that
//! cancels out. What the operations need is made before, and what they leave behind is released
//! after what is counted.
#![expect(missing_docs, reason = "the macros make items without")]

use std::sync::Arc;

use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_bench::data::{Generated, Object, ObjectAccess, Source, write_key};
use gungraun::{library_benchmark, library_benchmark_group, main};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KNOWN: usize = 10_000;

/// A queue over a store that knows all objects. They are kept, so that replacing them in the store
/// frees nothing.
struct Filled {
    fifo: DeltaFifo<Object, ObjectAccess>,
    known: Vec<Arc<Object>>,
}

/// Every object once, freshly made; by one thread, so that nothing depends on how many cores there
/// are.
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

fn idle() -> Filled {
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjectAccess))
        .build()
        .expect("no index is given twice");
    let filled = Filled { fifo: DeltaFifo::over(store).build(), known: objects() };
    filled.fifo.replace(filled.known.clone(), "1").expect("every object has a name");
    filled.pop_batches();
    filled
}

fn pending() -> Filled {
    let filled = idle();
    filled.update(objects());
    filled
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
