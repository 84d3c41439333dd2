//! Objects and errors that count their drop and panic in it, and assertions about the drops.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo::{Indexer, KeyFunc, NoMeta};

/// An object that counts its drop and panics in it.
pub struct Bomb {
    pub key: &'static str,
    pub dropped: Arc<AtomicUsize>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        // Skips the panic hook, whose output would only be noise.
        resume_unwind(Box::new("dropped"));
    }
}

/// A maker of bombs, with the count of their drops.
pub struct Arsenal(pub Arc<AtomicUsize>);

impl Arsenal {
    pub fn bomb(&self, key: &'static str) -> Arc<Bomb> {
        Arc::new(Bomb { key, dropped: self.0.clone() })
    }

    pub fn bombs(&self) -> Vec<Arc<Bomb>> {
        ["a", "b", "c"].map(|key| self.bomb(key)).into()
    }
}

/// Returns a function of the bombs' keys. Other properties are accessed by `meta`.
pub fn keys_with<M: deltafifo::Meta<Bomb>>(meta: M) -> KeyFunc<Bomb, M> {
    KeyFunc::custom(meta, |bomb: &Bomb| Ok(bomb.key.to_owned()))
}

pub fn keys() -> KeyFunc<Bomb, NoMeta> {
    keys_with(NoMeta)
}

pub fn store() -> Indexer<Bomb, NoMeta> {
    Indexer::builder(keys())
        .index("key", |bomb: &Bomb| Ok(vec![bomb.key.to_owned()]))
        .build()
        .unwrap()
}

/// Asserts that `work` drops `count` bombs, and that only the first panic propagates.
#[track_caller]
pub fn all_dropped(count: usize, work: impl Fn(&Arsenal)) {
    let arsenal = Arsenal(Arc::default());
    let panic =
        catch_unwind(AssertUnwindSafe(|| work(&arsenal))).expect_err("the first panic propagates");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
    assert_eq!(arsenal.0.load(Ordering::Relaxed), count);
}

/// Drops `container`, which has bombs, and asserts that the drop panics.
#[track_caller]
pub fn dropped_with_a_panic<C>(container: C) {
    catch_unwind(AssertUnwindSafe(|| drop(container))).expect_err("it has bombs");
}

/// Asserts that all bombs in `container` are dropped, when it is dropped alone and while a panic
/// unwinds.
#[track_caller]
pub fn dropped_whole<C>(count: usize, container: impl Fn(&Arsenal) -> C) {
    all_dropped(count, |arsenal| drop(container(arsenal)));
    all_dropped(count, |arsenal| {
        let _container = container(arsenal);
        resume_unwind(Box::new("dropped"));
    });
}

/// An error that counts its drop and panics in it.
#[derive(Debug)]
pub struct BombError(pub Arc<AtomicUsize>);

impl std::fmt::Display for BombError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("meant")
    }
}

impl std::error::Error for BombError {}

impl Drop for BombError {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("dropped"));
    }
}

/// Returns a store with two indexes whose functions fail for every object.
pub fn failing_store(arsenal: &Arsenal) -> Indexer<Bomb, NoMeta> {
    let [one, other] = [0, 1].map(|_| {
        let dropped = arsenal.0.clone();
        move |_: &Bomb| Err(BombError(dropped.clone()).into())
    });
    Indexer::builder(keys()).index("one", one).index("other", other).build().unwrap()
}

/// Asserts that one panic, with the text `dropped`, propagates from `work`.
#[track_caller]
pub fn one_panic(work: impl FnOnce(&Arsenal)) {
    let arsenal = Arsenal(Arc::default());
    let panic = catch_unwind(AssertUnwindSafe(|| work(&arsenal))).expect_err("a panic propagates");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
}

/// A number of bombs, and a call that drops them.
pub type DropCase<'c> = (usize, &'c dyn Fn(&Arsenal));

/// Asserts for each case that all its bombs are dropped, and that only the first panic propagates.
#[track_caller]
pub fn each_drops(cases: &[DropCase<'_>]) {
    for (count, work) in cases {
        all_dropped(*count, work);
    }
}
