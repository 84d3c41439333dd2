//! Tests of scopes whose predicates panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rig::{drain, fused, list, object, store, stored};
use deltafifo::{DeltaFifo, KeyScope};

#[test]
fn panicking_predicate_abandons_the_relist_and_loses_no_key() {
    let fifo = fused();
    let scope = KeyScope::keys("calm", |key| {
        if key == "blue/z" { panic!("by the test") } else { key != "red/a" }
    });
    let calm = fifo.add_scope(scope).unwrap();
    list(&fifo, &calm, &[object("blue", "a", 1)], "1");
    drain(&fifo);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut relist = fifo.begin_replace_in(&calm);
        relist.offer(vec![object("blue", "b", 2), object("blue", "z", 2)])
    }));
    assert!(panicked.is_err());
    assert_eq!(
        list(&fifo, &calm, &[object("blue", "a", 1)], "3"),
        0,
        "nothing of the page was queued"
    );
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/a"]);
}

/// Returns a scope of all keys of the namespace green. While `panics` is set, its predicate panics
/// for the key `green/20`.
fn fragile_green(panics: &Arc<AtomicBool>) -> KeyScope {
    let panics = Arc::clone(panics);
    KeyScope::keys("green", move |key| {
        assert!(!(key == "green/20" && panics.load(Ordering::Relaxed)), "as the test wants");
        key.starts_with("green/")
    })
}

#[test]
fn sweep_with_a_panicking_predicate_deletes_nothing_and_leaves_no_key_stuck() {
    // Enough names for many shards. The predicate panics for one key, and no other key may have
    // been swept before the panic.
    let names: Vec<_> = concat!(
        "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 ",
        "30 31 32 33 34 35 36 37 38 39",
    )
    .split(' ')
    .collect();
    for removes in [false, true] {
        let fifo = DeltaFifo::over(store()).build();
        let panics = Arc::new(AtomicBool::new(false));
        let green = fifo.add_scope(fragile_green(&panics)).unwrap();
        let objects: Vec<_> = names.iter().map(|name| object("green", name, 1)).collect();
        list(&fifo, &green, &objects, "1");
        drain(&fifo);
        panics.store(true, Ordering::Relaxed);
        let swept = catch_unwind(AssertUnwindSafe(|| {
            if removes {
                fifo.remove_scope(&green).map(drop)
            } else {
                fifo.begin_replace_in(&green).commit("2").map(drop)
            }
        }));
        swept.unwrap_err();
        panics.store(false, Ordering::Relaxed);
        assert_eq!(fifo.pending_deltas(), 0, "nothing is counted that is not queued");
        for object in &objects {
            fifo.delete(Arc::clone(object)).unwrap();
        }
        drain(&fifo);
        assert_eq!(stored(&fifo), [""; 0], "every key can still be queued");
    }
}

#[test]
fn removal_with_a_panicking_predicate_ends_the_wait_for_its_first_list() {
    let fifo = fused();
    let panics = Arc::new(AtomicBool::new(false));
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    let green = fifo.add_scope(fragile_green(&panics)).unwrap();
    list(&fifo, &blue, &[], "1");
    fifo.add(object("green", "20", 1)).unwrap();
    drain(&fifo);
    panics.store(true, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| fifo.remove_scope(&green))).unwrap_err();
    assert!(fifo.has_synced(), "the other scope was listed");
    // Its keys can be given to another scope, although they have stayed.
    panics.store(false, Ordering::Relaxed);
    fifo.add_scope(KeyScope::keys("green again", |key| key.starts_with("green/"))).unwrap();
}
