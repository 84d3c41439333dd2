//! Tests of pages, lists and iterators of which some objects are refused.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::rig::{Bomb, all_dropped, each_drops, keys, store};
use crate::common::ends;
use deltafifo::caches::{ExpirationCache, Fifo, Heap};
use deltafifo::{
    Delta, DeltaFifo, DeltaType, Deltas, InOrderFifo, Indexer, KeyFunc, KeyScope, NoMeta, Store,
    Transaction,
};

#[test]
#[cfg_attr(
    miri,
    ignore = "the error that a call returns leaks if a destructor panics on the way out"
)]
fn refused_page_drops_every_object_although_their_destructors_panic() {
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        let mut older = fifo.begin_replace();
        let _newer = fifo.begin_replace();
        let _ = older.offer(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let refuse = |_: Arc<Bomb>| Err("refused".into());
        let fifo = DeltaFifo::over(store()).transformer(refuse).build();
        let _ = fifo.replace(arsenal.bombs(), "1");
    });
    let keyless = || {
        KeyFunc::custom(
            NoMeta,
            |bomb: &Bomb| if bomb.key == "b" { Err("no key".into()) } else { Ok("k".into()) },
        )
    };
    all_dropped(3, |arsenal| {
        let _ = Indexer::builder(keyless()).build().unwrap().replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let _ = InOrderFifo::builder(keyless()).build().replace(arsenal.bombs(), "1");
    });
    all_dropped(3, |arsenal| {
        let fifo = InOrderFifo::over(store()).build();
        fifo.add_scope(KeyScope::keys("all", |_| true)).unwrap();
        let _ = fifo.replace(arsenal.bombs(), "1");
    });
}

#[test]
#[cfg_attr(
    miri,
    ignore = "the error that a call returns leaks if a destructor panics on the way out"
)]
fn refused_list_drops_every_object_although_their_destructors_panic() {
    let no_keys = || KeyFunc::custom(NoMeta, |_: &Bomb| Err("no key".into()));
    let last_has_none = || {
        KeyFunc::custom(NoMeta, |bomb: &Bomb| {
            if bomb.key == "c" { Err("no key".into()) } else { Ok(bomb.key.into()) }
        })
    };
    all_dropped(3, |arsenal| {
        let store = Indexer::builder(no_keys()).build().unwrap();
        let _ = store.replace_keeping(arsenal.bombs(), []);
    });
    // The destructor of the caller's iterator panics as well.
    all_dropped(2, |arsenal| {
        let store = Indexer::builder(no_keys()).build().unwrap();
        let captured = arsenal.bomb("captured");
        let changes = std::iter::repeat_with(|| Transaction::Add(arsenal.bomb("a")));
        let _ = store.transaction(changes.inspect(move |_| assert!(!captured.key.is_empty())));
    });
    all_dropped(3, |arsenal| {
        let _ = Fifo::new(last_has_none()).replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let heap = Heap::new(last_has_none(), |a: &Bomb, b: &Bomb| a.key < b.key);
        let _ = heap.bulk_add(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let heap = Heap::new(keys(), |a: &Bomb, b: &Bomb| a.key < b.key);
        heap.close();
        let _ = heap.replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let heap = Heap::new(keys(), |a: &Bomb, b: &Bomb| a.key < b.key);
        heap.close();
        let _ = heap.bulk_add(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let cache = ExpirationCache::with_ttl(last_has_none(), Duration::ZERO);
        let _ = cache.replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let cache = ExpirationCache::with_ttl(last_has_none(), Duration::ZERO);
        let _ = Store::replace_keeping(&cache, arsenal.bombs(), &[], "1");
    });
}

/// Checks that an iterator of the caller, which may be endless or wait for another thread, is not
/// emptied when a call ends early.
#[test]
fn iterator_of_the_caller_is_not_called_after_an_error_or_a_panic() {
    let store = || {
        let keys = KeyFunc::custom(NoMeta, |number: &u32| {
            if *number == 1 { resume_unwind(Box::new("key")) } else { Ok(number.to_string()) }
        });
        Indexer::builder(keys).build().unwrap()
    };
    let panics = |work: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    ends(move || {
        panics(&|| {
            let all_panic = std::iter::from_fn(|| -> Option<Transaction<u32>> {
                resume_unwind(Box::new("next"))
            });
            let _ = store().transaction(all_panic);
        });
        panics(&|| {
            let (send, receive) = mpsc::channel();
            send.send(Transaction::Add(Arc::new(1))).unwrap();
            let _ = store().transaction(receive);
            // A receiver that waits for the end would wait for ever.
            drop(send);
        });
        let keys = KeyFunc::custom(NoMeta, |number: &u32| {
            if *number == 5 { Err("no key".into()) } else { Ok(number.to_string()) }
        });
        let heap = Heap::new(keys, |a: &u32, b: &u32| a < b);
        let mut taken = 0;
        let endless = (0..).inspect(|_| taken += 1).map(Arc::new);
        assert!(heap.bulk_add(endless).is_err());
        assert_eq!((taken, heap.len()), (6, 0));
    });
}

#[test]
fn objects_are_dropped_one_by_one_although_an_iterator_of_the_caller_panics() {
    let kept = || std::iter::once("x").inspect(|_| resume_unwind(Box::new("dropped")));
    each_drops(&[
        (3, &|arsenal| drop(store().replace_keeping(arsenal.bombs(), kept()))),
        (3, &|arsenal| {
            drop(InOrderFifo::over(store()).build().replace_keeping(arsenal.bombs(), kept(), "1"));
        }),
        (2, &|arsenal| {
            let deltas = [0, 1].map(|_| Delta::new(DeltaType::Added, arsenal.bomb("a")));
            let panics = std::iter::from_fn(|| resume_unwind(Box::new("dropped")));
            drop(deltas.into_iter().chain(panics).collect::<Deltas<_>>());
        }),
    ]);
}
