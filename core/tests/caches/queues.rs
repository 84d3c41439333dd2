//! Tests of every queue through the trait `Queue` alone, as a controller pops it.

use std::error::Error;
use std::sync::Arc;
use std::thread;

use crate::common::{Obj, ObjMeta, ends, keys, obj};
use deltafifo::caches::{Fifo, Heap, Queue};
use deltafifo::{
    Closed, DeltaFifo, Deltas, InOrderFifo, IndexReader, Indexer, ProcessError, error_chain,
};

/// An item of any queue, of which the tests read the newest object.
trait Newest {
    fn newest(&self) -> Arc<Obj>;
}

impl Newest for Arc<Obj> {
    fn newest(&self) -> Arc<Obj> {
        self.clone()
    }
}

impl Newest for Deltas<Obj> {
    fn newest(&self) -> Arc<Obj> {
        self.newest().and_then(|delta| delta.object.object().cloned()).unwrap()
    }
}

/// Runs a test on a `DeltaFifo`, a `Fifo` and a `Heap`.
macro_rules! on_every_queue {
    ($test:ident) => {
        $test(&DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build());
        $test(&Fifo::new(keys()));
        $test(&Heap::new(keys(), |a: &Obj, b: &Obj| a.n < b.n));
    };
}

#[test]
fn every_queue_pops_each_key_once_with_its_newest_object() {
    fn test<Item: Newest>(queue: &dyn Queue<Obj, Item = Item>) {
        let mut seen = Vec::new();
        for (key, n) in [("a", 1), ("b", 3), ("a", 2)] {
            queue.update(obj(key, n)).unwrap();
        }
        assert!(!queue.is_closed());
        queue.close();
        assert!(queue.is_closed());
        let closed = loop {
            let processed = queue.process(&mut |item, _| {
                seen.push((item.newest().name.clone(), item.newest().n));
                Ok(())
            });
            if let Err(error) = processed {
                break error;
            }
        };
        assert!(matches!(closed, ProcessError::Closed(Closed)));
        assert_eq!(seen, [("a".to_owned(), 2), ("b".to_owned(), 3)]);
    }
    on_every_queue!(test);
}

#[test]
fn every_queue_is_synced_when_the_handlers_of_the_initial_list_have_ended() {
    fn test<Item: Newest>(queue: &dyn Queue<Obj, Item = Item>) {
        assert!(!queue.has_synced());
        queue.replace(vec![obj("a", 1), obj("b", 2)], "1").unwrap();
        queue.add(obj("c", 3)).unwrap();
        let mut notified = Vec::new();
        for _ in 0..3 {
            queue
                .process(&mut |item, initial| {
                    notified.push((item.newest().name.clone(), initial, queue.has_synced()));
                    Ok(())
                })
                .unwrap();
        }
        let expected = [("a", true, false), ("b", true, false), ("c", false, true)];
        assert_eq!(
            notified,
            expected.map(|(key, initial, synced)| (key.to_owned(), initial, synced))
        );
        queue.wait_for_sync().unwrap();
    }
    on_every_queue!(test);
}

#[test]
fn failing_or_panicking_handler_is_reported_and_the_queue_continues() {
    fn test<Item: Newest>(queue: &dyn Queue<Obj, Item = Item>) {
        queue.replace(vec![obj("a", 1), obj("b", 2)], "1").unwrap();
        let failed = queue.process(&mut |_, _| Err("not today".into())).unwrap_err();
        assert_eq!(failed.to_string(), "the handler of key \"a\" failed: not today");
        assert!(Error::source(&failed).is_none(), "the message contains the error already");
        let panicked = queue.process(&mut |_, _| panic!("expected by this test")).unwrap_err();
        assert!(
            matches!(panicked, ProcessError::Panicked { key, message } if key == "b" && message.contains("expected"))
        );
        assert!(queue.has_synced(), "any end of a handler counts");
        queue.add(obj("b", 3)).unwrap();
        let mut seen = 0;
        queue
            .process(&mut |item, _| {
                seen = item.newest().n;
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, 3);
    }
    on_every_queue!(test);
}

#[test]
fn waiters_of_a_queue_end_when_it_is_synced_or_closed() {
    fn test<Item: Newest>(queue: &dyn Queue<Obj, Item = Item>) {
        queue.replace(vec![obj("a", 1)], "1").unwrap();
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| queue.wait_for_sync())).collect();
            queue.process(&mut |_, _| Ok(())).unwrap();
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == Ok(())));
        });
    }
    fn closed<Item: Newest>(queue: &dyn Queue<Obj, Item = Item>) {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait_for_sync());
            let popping: Vec<_> =
                (0..10).map(|_| scope.spawn(|| queue.process(&mut |_, _| Ok(())))).collect();
            queue.close();
            assert_eq!(waiting.join().unwrap(), Err(Closed));
            for popping in popping {
                assert!(matches!(popping.join().unwrap(), Err(ProcessError::Closed(Closed))));
            }
        });
    }
    ends(|| {
        on_every_queue!(test);
        on_every_queue!(closed);
    });
}

#[test]
fn fused_queue_applies_an_item_before_its_handler_runs() {
    fn test<Item>(queue: &dyn Queue<Obj, Item = Item>, store: &IndexReader<Obj, ObjMeta>) {
        queue.replace(vec![obj("a", 1)], "1").unwrap();
        let mut found = None;
        queue
            .process(&mut |_, _| {
                found = store.get_by_key("a");
                Ok(())
            })
            .unwrap();
        assert_eq!(found.map(|object| object.n), Some(1));
        queue.update(obj("a", 2)).unwrap();
        queue.process(&mut |_, _| Err("not today".into())).unwrap_err();
        assert_eq!(store.get_by_key("a").unwrap().n, 2, "applied although the handler failed");
        queue.delete(obj("a", 2).into()).unwrap();
        queue.process(&mut |_, _| panic!("expected by this test")).unwrap_err();
        assert!(store.is_empty());
    }
    let store = || Indexer::builder(keys()).build().unwrap();
    let by_key = DeltaFifo::over(store()).build();
    test(&by_key, &by_key.store());
    let in_order = InOrderFifo::over(store()).build();
    test(&in_order, &in_order.store());
}

#[test]
fn failing_index_function_is_an_error_of_a_successful_handlers_key() {
    fn test<Item>(queue: &dyn Queue<Obj, Item = Item>, store: &IndexReader<Obj, ObjMeta>) {
        queue.add(obj("a", 13)).unwrap();
        let mut handled = 0;
        let count = &mut |_: &Item, _| {
            handled += 1;
            Ok(())
        };
        let failed = queue.process(count).unwrap_err();
        let ProcessError::Handler { key, error } = failed else { panic!("{failed}") };
        assert!(key == "a" && error_chain(&error).contains("unlucky"), "{key}: {error}");
        assert_eq!((handled, store.get_by_key("a").unwrap().n), (1, 13));
        queue.update(obj("a", 13)).unwrap();
        let failed = queue.process(&mut |_, _| Err("not today".into())).unwrap_err();
        assert_eq!(
            error_chain(&failed),
            "the handler of key \"a\" failed: not today",
            "the handler's own error takes precedence"
        );
        queue.update(obj("a", 1)).unwrap();
        queue.process(&mut |_, _| Ok(())).unwrap();
    }
    let luck = |object: &Obj| if object.n == 13 { Err("unlucky".into()) } else { Ok(vec![]) };
    let store = || Indexer::builder(keys()).index("luck", luck).build().unwrap();
    let by_key = DeltaFifo::over(store()).build();
    test(&by_key, &by_key.store());
    let in_order = InOrderFifo::over(store()).build();
    test(&in_order, &in_order.store());
}
