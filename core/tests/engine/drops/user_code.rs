//! Tests of objects for which the key function, the accessor or the predicate panics.

use std::panic::resume_unwind;
use std::time::Duration;

use super::rig::{Arsenal, Bomb, all_dropped, each_drops, keys_with, store};
use deltafifo::caches::{ExpirationCache, Fifo, MutationCache};
use deltafifo::{
    Delta, DeltaFifo, DeltaType, Deltas, InOrderFifo, Indexer, KeyFunc, KeyScope, NoMeta,
    ReflectorStore, Store, Transaction,
};

/// An accessor that panics when it is asked for the namespace.
struct PanickingMeta;

impl deltafifo::Meta<Bomb> for PanickingMeta {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        resume_unwind(Box::new("dropped"));
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        Some(bomb.key)
    }

    fn version<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        None
    }
}

/// Checks that all objects of a list are dropped although the accessor, which is called before each
/// object is stored, panics.
#[test]
fn list_is_dropped_whole_although_an_accessor_and_the_destructors_panic() {
    let store = || Indexer::builder(keys_with(PanickingMeta)).build().unwrap();
    all_dropped(3, |arsenal| {
        let _ = store().replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let _ = store().replace_keeping(arsenal.bombs(), []);
    });
}

#[test]
fn object_that_cannot_be_stored_is_dropped_although_its_accessor_and_destructor_panic() {
    let store = || Indexer::builder(keys_with(PanickingMeta)).build().unwrap();
    all_dropped(1, |arsenal| {
        let store = store();
        let _stored = store.add(arsenal.bomb("a"));
    });
    all_dropped(1, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let _applied = fifo.try_pop().unwrap().apply(|_| ());
    });
}

/// Checks that all objects of a call are dropped although the key function panics, and that only
/// the first panic propagates.
#[test]
fn objects_whose_key_function_and_destructors_panic_are_all_dropped() {
    fn no_key() -> KeyFunc<Bomb, NoMeta> {
        KeyFunc::custom(NoMeta, |_: &Bomb| resume_unwind(Box::new("dropped")))
    }
    fn store() -> Indexer<Bomb, NoMeta> {
        Indexer::builder(no_key()).build().unwrap()
    }
    fn deltas(arsenal: &Arsenal) -> Deltas<Bomb> {
        Deltas::from_iter([Delta::new(DeltaType::Added, arsenal.bomb("a"))])
    }
    let (fifo, in_order) =
        (|| DeltaFifo::over(store()).build(), || InOrderFifo::over(store()).build());
    let all = || KeyScope::keys("all", |_| true);
    each_drops(&[
        (1, &|arsenal| drop(store().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(ReflectorStore::delete(&store(), arsenal.bomb("a").into()))),
        (3, &|arsenal| drop(store().replace(arsenal.bombs()))),
        (3, &|arsenal| drop(store().replace_keeping(arsenal.bombs(), []))),
        (1, &|arsenal| drop(store().transaction([Transaction::Add(arsenal.bomb("a"))]))),
        (1, &|arsenal| {
            drop(store().transaction([Transaction::Delete(arsenal.bomb("a").into())]));
        }),
        (1, &|arsenal| drop(fifo().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(fifo().delete(arsenal.bomb("a")))),
        (1, &|arsenal| drop(fifo().add_if_not_present(deltas(arsenal)))),
        (3, &|arsenal| drop(fifo().add_batch(arsenal.bombs()))),
        (3, &|arsenal| drop(fifo().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| drop(fifo().begin_replace().offer(arsenal.bombs()))),
        (1, &|arsenal| drop(fifo().begin_replace().delete(arsenal.bomb("a")))),
        (3, &|arsenal| {
            let fifo = fifo();
            let scope = fifo.add_scope(all()).unwrap();
            let _ = fifo.begin_replace_in(&scope).offer(arsenal.bombs());
        }),
        (1, &|arsenal| drop(in_order().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(in_order().delete(arsenal.bomb("a")))),
        (3, &|arsenal| drop(in_order().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| drop(in_order().replace_keeping(arsenal.bombs(), [], "1"))),
        (3, &|arsenal| {
            let fifo = in_order();
            let scope = fifo.add_scope(all()).unwrap();
            let _ = fifo.replace_in(&scope, arsenal.bombs(), "1");
        }),
        (1, &|arsenal| drop(Fifo::new(no_key()).add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(Fifo::new(no_key()).replace(arsenal.bombs()))),
        (1, &|arsenal| {
            drop(ReflectorStore::delete(&Fifo::new(no_key()), arsenal.bomb("a").into()));
        }),
        (1, &|arsenal| {
            let cache = ExpirationCache::with_ttl(no_key(), Duration::ZERO);
            let _ = cache.add(arsenal.bomb("a"));
        }),
        (3, &|arsenal| {
            let cache = ExpirationCache::with_ttl(no_key(), Duration::ZERO);
            let _ = Store::replace_keeping(&cache, arsenal.bombs(), &[], "1");
        }),
        (1, &|arsenal| {
            drop(MutationCache::builder(store().reader()).build().mutation(arsenal.bomb("a")));
        }),
    ]);
}

/// An accessor that panics when it is asked for the version.
struct NoVersion;

impl deltafifo::Meta<Bomb> for NoVersion {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        Some(bomb.key)
    }

    fn version<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        resume_unwind(Box::new("dropped"));
    }
}

#[test]
fn objects_whose_version_accessor_and_destructors_panic_are_all_dropped() {
    let builder = || Indexer::builder(KeyFunc::meta_namespace(NoVersion));
    let store = || builder().transformer(Ok).build().unwrap();
    let known_to_fail = || builder().index("x", |_: &Bomb| Err("no value".into())).build().unwrap();
    each_drops(&[
        (1, &|arsenal| drop(store().add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(store().replace_keeping(arsenal.bombs(), []))),
        (1, &|arsenal| drop(known_to_fail().add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(known_to_fail().replace(arsenal.bombs()))),
        (1, &|arsenal| drop(DeltaFifo::over(store()).build().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(InOrderFifo::over(store()).build().add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(DeltaFifo::over(store()).build().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| drop(InOrderFifo::over(store()).build().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| {
            let fifo = DeltaFifo::over(builder().build().unwrap()).skip_unchanged(true).build();
            let _ = fifo.replace(arsenal.bombs(), "1");
        }),
        (1, &|arsenal| {
            let cache = MutationCache::builder(store().reader()).build();
            let _ = cache.mutation(arsenal.bomb("a"));
        }),
    ]);
}

#[test]
fn objects_whose_predicate_and_destructors_panic_are_all_dropped() {
    let predicate = || KeyScope::keys("x", |_| resume_unwind(Box::new("dropped")));
    each_drops(&[
        (3, &|arsenal| {
            let fifo = DeltaFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.begin_replace_in(&scope).offer(arsenal.bombs());
        }),
        (1, &|arsenal| {
            let fifo = DeltaFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.begin_replace_in(&scope).delete(arsenal.bomb("a"));
        }),
        (3, &|arsenal| {
            let fifo = InOrderFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.replace_in(&scope, arsenal.bombs(), "1");
        }),
        (3, &|arsenal| {
            let fifo = InOrderFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.replace_keeping_in(&scope, arsenal.bombs(), [], "1");
        }),
    ]);
}
