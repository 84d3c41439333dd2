//! A test of the memory that queues keep after many keys were handled and deleted. It is a program
//! of its own, because its allocator counts the bytes of the whole process.

#[allow(dead_code)] // The stress test uses all of it.
#[path = "../stress/memory.rs"]
mod memory;

use std::sync::Arc;

use deltafifo::{DeltaFifo, DeltaFifoBuilder, InOrderFifo, Indexer, KeyFunc, NoMeta};
use memory::allocated;

/// The number of keys. Room for all of them would take more than [`KEPT`] bytes in any collection.
const KEYS: u32 = 20_000;
/// The largest number of bytes that may stay allocated. Most of them are the smallest tables of
/// the shards.
const KEPT: isize = 256 << 10;

type Fifo = DeltaFifo<u32, NoMeta>;
type Builder = DeltaFifoBuilder<u32, NoMeta>;
type Build = fn(Builder) -> Builder;

fn store() -> Indexer<u32, NoMeta> {
    Indexer::builder(KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string())))
        .build()
        .unwrap()
}

/// Asserts that the queue that `work` returns keeps at most [`KEPT`] bytes.
#[track_caller]
fn keeps_little<F>(what: &str, work: impl FnOnce() -> F) {
    let before = allocated();
    let fifo = work();
    let kept = allocated() - before;
    assert!(kept <= KEPT, "{what}: {} KiB are kept", kept >> 10);
    drop(fifo);
}

fn add_all(fifo: &Fifo) {
    (0..KEYS).for_each(|number| fifo.add(Arc::new(number)).unwrap());
}

fn apply_all(fifo: &Fifo) {
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
}

fn delete_all(fifo: &Fifo) {
    apply_all(fifo);
    fifo.replace(vec![], "2").unwrap();
    apply_all(fifo);
    assert!(fifo.store().is_empty());
}

/// Queues the deletions of all keys, and gives a batch of them back.
fn give_deletions_back(fifo: &Fifo) {
    add_all(fifo);
    apply_all(fifo);
    (0..KEYS).for_each(|number| fifo.delete(Arc::new(number)).unwrap());
    drop(fifo.try_pop_batch(KEYS as usize));
}

/// Measures all kinds of queues. It is the only test of this program, so that no other thread
/// allocates.
#[test]
#[cfg_attr(miri, ignore = "too many keys")]
fn deleted_keys_leave_little_memory_behind() {
    let builders: [(&str, Build); 3] = [
        ("plain", |builder| builder),
        ("tracking", |builder| builder.track_applied(true)),
        ("with a live lane", |builder| builder.live_lane(true).track_applied(true)),
    ];
    // Run once before, to allocate the memory that a process allocates only once.
    let fifo = DeltaFifo::over(store()).build();
    add_all(&fifo);
    delete_all(&fifo);
    drop(fifo);
    for (kind, build) in builders {
        let built = || build(DeltaFifo::over(store())).build();
        keeps_little(&format!("{kind}, handled"), || {
            let fifo = built();
            add_all(&fifo);
            delete_all(&fifo);
            fifo
        });
        keeps_little(&format!("{kind}, a batch given back"), || {
            let fifo = built();
            add_all(&fifo);
            drop(fifo.try_pop_batch(KEYS as usize));
            delete_all(&fifo);
            fifo
        });
        keeps_little(&format!("{kind}, handlers cancelled"), || {
            let fifo = built();
            add_all(&fifo);
            let items: Vec<_> = std::iter::from_fn(|| fifo.try_pop()).collect();
            // Behind this marker the items are put back.
            let _untracked = fifo.bookmark("1");
            drop(items);
            delete_all(&fifo);
            fifo
        });
        keeps_little(&format!("{kind}, a batch of deletions given back"), || {
            let fifo = built();
            give_deletions_back(&fifo);
            apply_all(&fifo);
            fifo
        });
        keeps_little(&format!("{kind}, a batch given back to a queue that is never empty"), || {
            let fifo = built();
            give_deletions_back(&fifo);
            (0..2).for_each(|number| fifo.add(Arc::new(KEYS + number)).unwrap());
            for _ in 0..=KEYS {
                fifo.try_pop().unwrap().apply(|_| ()).unwrap();
            }
            assert_eq!(fifo.list().len(), 1);
            fifo
        });
    }
    keeps_little("in order, a batch given back", || {
        let fifo = InOrderFifo::over(store()).build();
        (0..KEYS).for_each(|number| fifo.add(Arc::new(number)).unwrap());
        drop(fifo.try_pop_batch(KEYS as usize));
        fifo.replace(vec![], "1").unwrap();
        while let Some(mut turn) = fifo.try_pop() {
            turn.apply(|_, _| ()).unwrap();
        }
        fifo
    });
}
