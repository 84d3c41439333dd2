//! A store that pushes its whole state after every change.
//!
//! A thread that changes the store pushes the state, or leaves that to a thread that is pushing.
//! Pushes come one after another, each with the state at its time, and none of them under a lock.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::engine::release::{OneByOne, UserCode};
use crate::engine::sync::{Arc, Mutex, assert_none_held};
use crate::error::{KeyError, StoreError};
use crate::panics::{FirstPanic, ignore_panic};
use crate::{DeltaObject, ReflectorStore, Store};

type PushFn<T> = UserCode<Box<dyn Fn(Vec<Arc<T>>) + Send + Sync>>;

/// A store that passes its whole state to a function after every change (client-go `UndeltaStore`).
/// So a stream of changes becomes a sequence of states again.
///
/// Every change that the store does not refuse is followed by one push, with the state at that
/// time or a later one; the last push has the last state. A list for which an index function fails
/// is pushed as well, because [all other objects may be stored](crate::Indexer::replace). Pushes
/// come one at a time: a thread that pushes does so for other threads, too, whose calls return at
/// once. Reads, bookmarks and resyncs push nothing. A push costs O(stored). If a push panics, the
/// pushes that are due still follow; then the first panic is resumed in the pushing thread, whose
/// own change has been made.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use deltafifo::caches::UndeltaStore;
/// use deltafifo::{Indexer, KeyFunc, NoMeta, ReflectorStore};
///
/// let sizes = Arc::new(Mutex::new(Vec::new()));
/// let seen = sizes.clone();
/// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
/// let store = Indexer::builder(keys).build()?;
/// let store = UndeltaStore::new(store, move |state| seen.lock().unwrap().push(state.len()));
/// store.add(Arc::new("a".to_owned()))?;
/// store.replace(vec![Arc::new("b".to_owned()), Arc::new("c".to_owned())], "5")?;
/// assert_eq!(*sizes.lock().unwrap(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UndeltaStore<T, S> {
    store: S,
    push: PushFn<T>,
    turns: Mutex<Turns>,
}

struct Turns {
    /// The number of pushes still to come.
    due: usize,
    /// Whether a thread is pushing.
    pushing: bool,
}

impl Turns {
    /// Takes the next push for the pushing thread. Returns false if none is due; then no thread is
    /// pushing any more.
    fn next(&mut self) -> bool {
        self.pushing = self.due > 0;
        self.due = self.due.saturating_sub(1);
        self.pushing
    }
}

impl<T, S: Store<T>> UndeltaStore<T, S> {
    /// Creates a store over `store`. From then on, `store` must be changed only through the new
    /// store. `push` gets all objects, in no particular order, and runs with no lock held.
    pub fn new(store: S, push: impl Fn(Vec<Arc<T>>) + Send + Sync + 'static) -> Self {
        Self {
            store,
            push: UserCode::new(Box::new(push)),
            turns: Mutex::new(Turns { due: 0, pushing: false }),
        }
    }

    /// Returns the underlying store, for reading.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Makes a change, and pushes the state unless the change failed with an error for which
    /// `may_be_made` returns false.
    fn change<R>(
        &self,
        may_be_made: fn(&StoreError) -> bool,
        change: impl FnOnce() -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        match catch_unwind(AssertUnwindSafe(change)) {
            Ok(changed) => {
                // `UserCode`, because the push may panic: the error is then dropped, and its
                // destructor is user code.
                let changed = UserCode::new(changed);
                if changed.as_ref().err().is_none_or(may_be_made) {
                    self.push_state();
                }
                changed.into_inner()
            }
            Err(panic) => {
                // The store may have made the change.
                ignore_panic(|| self.push_state());
                resume_unwind(panic);
            }
        }
    }

    /// Pushes the state after a change.
    fn push_state(&self) {
        let mut turns = self.turns.lock();
        turns.due += 1;
        let is_my_turn = !std::mem::replace(&mut turns.pushing, true);
        drop(turns);
        if is_my_turn {
            let mut panic = FirstPanic::default();
            while self.turns.lock().next() {
                assert_none_held();
                panic.call(|| (self.push)(self.store.list()));
            }
            panic.resume();
        }
    }
}

/// Returns whether a list may be stored although its replacement failed with `error`. An index
/// function can fail for an object while the others are stored.
fn may_be_listed(error: &StoreError) -> bool {
    error.is_stored() || matches!(error, StoreError::Index { .. })
}

impl<T, S: Store<T>> ReflectorStore<T> for UndeltaStore<T, S> {
    fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.change(StoreError::is_stored, || self.store.add(object))
    }

    fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.change(StoreError::is_stored, || self.store.update(object))
    }

    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError> {
        self.change(StoreError::is_stored, || self.store.delete(object))
    }

    fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), StoreError> {
        self.change(may_be_listed, || self.store.replace(list, version))
    }

    fn bookmark(&self, version: &str) {
        self.store.bookmark(version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        self.store.resync()
    }
}

impl<T, S: Store<T>> Store<T> for UndeltaStore<T, S> {
    fn list(&self) -> Vec<Arc<T>> {
        self.store.list()
    }

    fn list_keys(&self) -> Vec<String> {
        self.store.list_keys()
    }

    fn get(&self, object: &T) -> Result<Option<Arc<T>>, KeyError> {
        self.store.get(object)
    }

    fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.store.get_by_key(key)
    }

    fn replace_keeping(
        &self,
        list: Vec<Arc<T>>,
        kept: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        let refused = self.change(may_be_listed, || {
            self.store.replace_keeping(list, kept, version).map(OneByOne)
        });
        refused.map(|mut refused| refused.take())
    }
}
