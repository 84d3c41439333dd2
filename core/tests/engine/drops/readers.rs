//! Tests of readers that have the last references to objects: visitors, walks and listers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::rig::{Arsenal, Bomb, all_dropped, each_drops, keys, keys_with, store};
use deltafifo::caches::ExpirationCache;
use deltafifo::{
    DeletedFinalStateUnknown, DeltaFifo, ExplicitKey, InOrderFifo, Indexer, KeyFunc, KeyScope,
    Labels, Lister, NoMeta, Selector,
};

/// Deletes the three bombs of an [`Arsenal`].
fn empty<M: deltafifo::Meta<Bomb>>(store: &Indexer<Bomb, M>) {
    for key in ["a", "b", "c"] {
        store.delete(ExplicitKey(key)).unwrap();
    }
}

#[test]
fn objects_of_a_reader_are_dropped_although_their_destructors_panic() {
    let filled = |arsenal: &Arsenal| {
        let store = store();
        store.replace(arsenal.bombs()).unwrap();
        store
    };
    // The visitor of the first object deletes all, so the reader has the last references.
    all_dropped(3, |arsenal| {
        let store = filled(arsenal);
        store.for_each(|_| empty(&store));
    });
    all_dropped(3, |arsenal| {
        let store = filled(arsenal);
        store.for_each(|_| {
            empty(&store);
            resume_unwind(Box::new("dropped"));
        });
    });
    // The policy empties the cache before it finds the first object expired.
    all_dropped(3, |arsenal| {
        let emptied = Arc::new(OnceLock::<Weak<ExpirationCache<Bomb, NoMeta>>>::new());
        let cache = {
            let emptied = emptied.clone();
            Arc::new(ExpirationCache::new(keys(), move |_: &Bomb, _| {
                emptied.get().unwrap().upgrade().unwrap().replace(vec![]).unwrap();
                true
            }))
        };
        emptied.set(Arc::downgrade(&cache)).unwrap();
        cache.replace(arsenal.bombs()).unwrap();
        cache.list();
    });
}

type Numbered = (u32, Arc<Bomb>);

/// Adds a second scope. The walk over the store that looks for keys of both scopes calls the
/// predicate of the first scope, which deletes every object. The walk then has the last references
/// to the objects of a shard. A shard with a single object would not show whether they are dropped
/// one by one, so each shard has many.
#[test]
fn last_references_of_a_walk_over_the_store_are_dropped_one_by_one() {
    const OBJECTS: u32 = if cfg!(miri) { 200 } else { 5_000 };
    let arsenal = Arsenal(Arc::default());
    let keys = KeyFunc::custom(NoMeta, |(number, _): &Numbered| Ok(number.to_string()));
    let fifo = Arc::new(InOrderFifo::over(Indexer::builder(keys).build().unwrap()).build());
    for number in 0..OBJECTS {
        fifo.add(Arc::new((number, arsenal.bomb("a")))).unwrap();
        fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
    }
    let of: Arc<OnceLock<Weak<InOrderFifo<Numbered, NoMeta>>>> = Arc::default();
    of.set(Arc::downgrade(&fifo)).unwrap_or_else(|_| unreachable!("set once"));
    let clears = move |_: &str| {
        let fifo = of.get().and_then(Weak::upgrade).unwrap();
        let is_first = fifo.store().len() == OBJECTS as usize;
        for number in (0..OBJECTS).filter(|_| is_first) {
            fifo.delete(DeletedFinalStateUnknown::new(number.to_string(), None)).unwrap();
            drop(catch_unwind(AssertUnwindSafe(|| fifo.try_pop().unwrap().apply(|_, _| ()))));
        }
        false
    };
    fifo.add_scope(KeyScope::keys("a", clears)).unwrap();
    let added = catch_unwind(AssertUnwindSafe(|| fifo.add_scope(KeyScope::keys("b", |_| false))));
    assert!(added.is_err(), "the first panic of a destructor propagates");
    assert_eq!(arsenal.0.load(Ordering::Relaxed), OBJECTS as usize);
}

type Cleared = Arc<OnceLock<Weak<Indexer<Bomb, Clears>>>>;

/// An accessor that deletes all objects of a store when it is asked for a name or a label, so that
/// its caller has the last references.
struct Clears(Cleared);

impl Clears {
    fn clear(&self) {
        if let Some(store) = self.0.get().and_then(Weak::upgrade) {
            empty(&store);
        }
    }
}

impl deltafifo::Meta<Bomb> for Clears {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        Some("n")
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        self.clear();
        Some(bomb.key)
    }
}

impl Labels<Bomb> for Clears {
    fn label<'a>(&self, _: &'a Bomb, _key: &str) -> Option<&'a str> {
        self.clear();
        None
    }
}

#[test]
fn objects_of_a_lister_are_dropped_although_their_destructors_panic() {
    let filled = |arsenal: &Arsenal| {
        let cleared = Cleared::default();
        let keys = keys_with(Clears(cleared.clone()));
        let store = Arc::new(Indexer::builder(keys).build().unwrap());
        store.replace(arsenal.bombs()).unwrap();
        cleared.set(Arc::downgrade(&store)).unwrap_or_else(|_| unreachable!("set once"));
        store
    };
    let selector: Selector = "app=x".parse().unwrap();
    each_drops(&[
        (3, &|arsenal| drop(Lister::new(filled(arsenal).reader()).select(&selector))),
        (3, &|arsenal| {
            let store = filled(arsenal);
            drop(Lister::new(store.reader()).namespace("n").get("no such name"));
        }),
        (3, &|arsenal| {
            let store = filled(arsenal);
            drop(Lister::new(store.reader()).namespace("n").get("a"));
        }),
    ]);
}

/// An accessor that returns the label value `x` for the object `c`, and `web` for the others. Once
/// it is armed, it deletes all objects the next time that it is asked for a namespace or a version,
/// and then panics if it was asked for a version.
#[derive(Default)]
struct ClearsArmed(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl ClearsArmed {
    fn arm(&self, clear: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(clear));
    }

    /// Deletes all objects, and returns true, if the accessor is armed.
    fn clear(&self) -> bool {
        let clear = self.0.lock().unwrap().take();
        clear.map(|clear| clear()).is_some()
    }
}

impl deltafifo::Meta<Bomb> for Arc<ClearsArmed> {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        Some(if self.clear() { "another" } else { "n" })
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        Some(bomb.key)
    }

    /// Returns a version that is not a number, so that a list also asks for the version of the
    /// known object.
    fn version<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        if self.clear() {
            resume_unwind(Box::new("dropped"));
        }
        Some("x")
    }
}

impl Labels<Bomb> for Arc<ClearsArmed> {
    fn label<'a>(&self, bomb: &'a Bomb, _key: &str) -> Option<&'a str> {
        Some(if bomb.key == "c" { "x" } else { "web" })
    }
}

#[test]
fn objects_of_a_label_in_a_namespace_are_dropped_although_their_destructors_panic() {
    let selector: Selector = "app=web".parse().unwrap();
    each_drops(&[(3, &|arsenal| {
        let meta = Arc::new(ClearsArmed::default());
        let store =
            Arc::new(Indexer::builder(keys_with(meta.clone())).label("app").build().unwrap());
        store.replace(arsenal.bombs()).unwrap();
        let weak = Arc::downgrade(&store);
        meta.arm(move || empty(&weak.upgrade().unwrap()));
        drop(Lister::new(store.reader()).namespace("n").select(&selector));
    })]);
}

#[test]
fn known_objects_are_dropped_although_the_accessor_of_their_versions_panics() {
    each_drops(&[(4, &|arsenal| {
        let meta = Arc::new(ClearsArmed::default());
        let store = Indexer::builder(keys_with(meta.clone())).build().unwrap();
        let fifo = Arc::new(DeltaFifo::over(store).skip_unchanged(true).build());
        for bomb in [arsenal.bomb("a"), arsenal.bomb("b")] {
            fifo.add(bomb).unwrap();
            fifo.try_pop().unwrap().apply(|_| ()).unwrap();
        }
        let weak = Arc::downgrade(&fifo);
        let clear = move || {
            let fifo = weak.upgrade().unwrap();
            for key in ["a", "b"] {
                fifo.delete(DeletedFinalStateUnknown::new(key, None)).unwrap();
                fifo.try_pop().unwrap().apply(|_| ()).unwrap();
            }
        };
        let list = vec![arsenal.bomb("a"), arsenal.bomb("b")];
        meta.arm(clear);
        let _ = fifo.replace(list, "2");
    })]);
}
