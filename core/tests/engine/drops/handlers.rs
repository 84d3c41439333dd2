//! Tests of items that are handled: the objects that a handler leaves out, replaces or deletes.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rig::{
    Arsenal, Bomb, BombError, all_dropped, dropped_whole, failing_store, keys, store,
};
use deltafifo::caches::{Heap, Queue};
use deltafifo::{Delta, DeltaFifo, DeltaType, Deltas, InOrderFifo, NoMeta, ProcessError};

#[test]
fn item_drops_all_its_objects_although_their_destructors_panic() {
    dropped_whole(3, |arsenal| {
        arsenal
            .bombs()
            .into_iter()
            .map(|bomb| Delta::new(DeltaType::Added, bomb))
            .collect::<Deltas<_>>()
    });
    let twice_known = |arsenal: &Arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        for _ in 0..3 {
            fifo.update(arsenal.bomb("a")).unwrap();
        }
        fifo
    };
    // First handled without being applied; then applied, which replaces two objects and keeps one.
    all_dropped(3, |arsenal| twice_known(arsenal).try_pop().unwrap().done());
    all_dropped(3, |arsenal| {
        let fifo = twice_known(arsenal);
        let mut item = fifo.try_pop().unwrap();
        item.apply(|_| ()).unwrap();
        item.done();
    });
    // Here the handler panics as well.
    all_dropped(3, |arsenal| {
        let fifo = twice_known(arsenal);
        let mut item = fifo.try_pop().unwrap();
        let _ = item.apply(|_| resume_unwind(Box::new("dropped")));
    });
    all_dropped(4, |arsenal| {
        let fifo = InOrderFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
        fifo.replace(arsenal.bombs(), "1").unwrap();
        let _ = fifo.try_pop().unwrap().apply(|_, _| resume_unwind(Box::new("dropped")));
    });
}

#[test]
fn objects_that_the_end_of_a_handler_leaves_out_are_all_dropped() {
    // A deletion over a handler that leaves nothing behind has no effect.
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::builder(keys()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let _handled: Result<(), ProcessError<String>> = fifo.process(|_| {
            fifo.delete(arsenal.bomb("a")).unwrap();
            Ok(())
        });
    });
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let item = fifo.try_pop().unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        item.done();
    });
    // Here the handler panics as well.
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let _item = fifo.try_pop().unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        resume_unwind(Box::new("dropped"));
    });
    // Replaced by `apply`, then left out.
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        let mut item = fifo.try_pop().unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        item.apply(|_| ()).unwrap();
        item.done();
    });
}

#[test]
fn deleted_object_is_dropped_although_its_handler_and_its_destructor_panic() {
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_| ()).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        let _ = fifo.try_pop().unwrap().apply(|_| resume_unwind(Box::new("dropped")));
    });
    all_dropped(2, |arsenal| {
        let fifo = InOrderFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        let _ = fifo.try_pop().unwrap().apply(|_, _| resume_unwind(Box::new("dropped")));
    });
}

#[test]
fn objects_are_dropped_although_the_handler_of_a_queue_trait_panics() {
    let panics = |fifo: &DeltaFifo<Bomb, NoMeta>| {
        Queue::process(fifo, &mut |_, _| resume_unwind(Box::new("handler"))).is_err()
    };
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_| ()).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        assert!(panics(&fifo));
    });
    // The destructor of an index function's error panics as well. Its panic is dropped.
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(failing_store(arsenal)).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        assert!(panics(&fifo));
    });
    all_dropped(3, |arsenal| {
        let fifo = InOrderFifo::over(failing_store(arsenal)).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        assert!(Queue::process(&fifo, &mut |_, _| resume_unwind(Box::new("handler"))).is_err());
    });
}

#[test]
fn handled_object_is_dropped_although_the_order_function_and_its_destructor_panic() {
    all_dropped(3, |arsenal| {
        let panics = Arc::new(AtomicBool::new(false));
        let is_less = {
            let panics = panics.clone();
            move |a: &Bomb, b: &Bomb| {
                if panics.load(Ordering::Relaxed) {
                    resume_unwind(Box::new("dropped"));
                }
                a.key < b.key
            }
        };
        let heap = Heap::new(keys(), is_less);
        heap.add(arsenal.bomb("a")).unwrap();
        heap.add(arsenal.bomb("b")).unwrap();
        let _handled: Result<(), ProcessError<BombError>> = heap.process(|_, _| {
            heap.add(arsenal.bomb("a")).unwrap();
            panics.store(true, Ordering::Relaxed);
            Err(BombError(Arc::default()))
        });
    });
}
