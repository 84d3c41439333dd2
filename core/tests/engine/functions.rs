//! Tests of user functions that the engine refuses or removes. They are dropped with no lock held,
//! because the destructor of a captured value may call the queue or the store.

use std::sync::Arc;

use crate::common::{Fifo, Obj, ObjMeta, abort_if_locked, ends, keys, obj};
use deltafifo::{DeltaFifo, InOrderFifo, IndexReader, Indexer, Indexers, KeyScope, ScopeError};

/// A value that a function captures.
struct Captured(&'static str);

impl Drop for Captured {
    fn drop(&mut self) {
        abort_if_locked(self.0);
    }
}

fn store() -> Indexer<Obj, ObjMeta> {
    Indexer::builder(keys()).build().unwrap()
}

/// Adds to `indexers` an index whose function has captured `captured`.
fn index<C: Send + Sync + 'static>(
    indexers: Indexers<Obj>,
    name: &str,
    captured: C,
) -> Indexers<Obj> {
    indexers.index(name, move |object: &Obj| {
        let _ = &captured;
        if object.n == 0 { Err("no number".into()) } else { Ok(vec![object.n.to_string()]) }
    })
}

/// Returns a scope of the keys that begin with `prefix`, whose predicate has captured `captured`.
fn scope<C: Send + Sync + 'static>(name: &str, prefix: &'static str, captured: C) -> KeyScope {
    KeyScope::keys(name, move |key| {
        let _ = &captured;
        key.starts_with(prefix)
    })
}

#[test]
fn refused_index_functions_are_dropped_with_no_lock_held() {
    let twice = || {
        let first = index(Indexers::new(), "number", Captured("the function before a conflict"));
        let second = index(first, "number", Captured("the function in conflict"));
        index(second, "other", Captured("the function after a conflict"))
    };
    assert!(store().add_indexers(twice()).is_err());
    let builder = Indexer::builder(keys());
    let builder = ["number", "number"].iter().fold(builder, |builder, name| {
        let captured = Captured("the function in conflict, in a builder");
        builder.index(name, move |_: &Obj| {
            let _ = &captured;
            Ok(Vec::new())
        })
    });
    assert!(builder.build().is_err());
    // Here the function fails for a stored object.
    let store = store();
    store.add(obj("a", 0)).unwrap();
    let failing = index(Indexers::new(), "number", Captured("the function of a failed build"));
    assert!(store.add_indexers(failing).is_err());
}

#[test]
fn destructor_of_a_refused_index_function_can_add_an_index() {
    struct AddsAnother(IndexReader<Obj, ObjMeta>);
    impl Drop for AddsAnother {
        fn drop(&mut self) {
            self.0.add_indexers(index(Indexers::new(), "another", ())).unwrap();
        }
    }
    ends(|| {
        let store = store();
        let conflict = index(Indexers::new(), "number", ());
        let conflict = index(conflict, "number", AddsAnother(store.reader()));
        assert!(store.add_indexers(conflict).is_err());
        assert!(store.by_index("another", "").is_ok());
    });
}

#[test]
fn refused_and_removed_predicates_are_dropped_with_no_lock_held() {
    let fifo = DeltaFifo::over(store()).build();
    let in_order = InOrderFifo::over(store()).build();
    let whole = fifo.begin_replace();
    let added = fifo.add_scope(scope("c", "c", Captured("the predicate during a relist")));
    assert!(matches!(added, Err(ScopeError::RelistOpen { .. })));
    drop(whole);
    let add = |scope: &dyn Fn() -> KeyScope| (fifo.add_scope(scope()), in_order.add_scope(scope()));
    let added = add(&|| scope("a", "a", Captured("the predicate of a removed scope")));
    let (by_key, by_order) = (added.0.unwrap(), added.1.unwrap());
    let same_name = add(&|| scope("a", "b", Captured("the predicate of a second scope")));
    assert!(matches!(
        same_name,
        (Err(ScopeError::Overlaps { .. }), Err(ScopeError::Overlaps { .. }))
    ));
    fifo.add(obj("ab", 1)).unwrap();
    in_order.add(obj("ab", 1)).unwrap();
    in_order.try_pop().unwrap().apply(|_, _| ()).unwrap();
    let same_key = add(&|| scope("ab", "ab", Captured("the predicate of an overlapping scope")));
    assert!(matches!(
        same_key,
        (Err(ScopeError::CommonKey { .. }), Err(ScopeError::CommonKey { .. }))
    ));
    let relist = fifo.begin_replace_in(&by_key);
    fifo.remove_scope(&by_key).unwrap();
    in_order.remove_scope(&by_order).unwrap();
    // The relist and the queued event have the last references.
    drop((by_key, by_order));
    drop(relist);
    drop(in_order);
}

#[test]
fn destructor_of_a_refused_predicate_can_call_the_queue() {
    struct ReadsVersion(std::sync::Weak<Fifo>);
    impl Drop for ReadsVersion {
        fn drop(&mut self) {
            assert_eq!(self.0.upgrade().unwrap().resource_version(), None);
        }
    }
    ends(|| {
        let fifo = Arc::new(DeltaFifo::over(store()).build());
        fifo.add_scope(scope("a", "a", ())).unwrap();
        let refused = scope("a", "b", ReadsVersion(Arc::downgrade(&fifo)));
        assert!(fifo.add_scope(refused).is_err());
    });
}
