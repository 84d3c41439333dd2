//! The indexes besides the built-in one. They can be added while objects are read and written.
//!
//! The list of indexes is replaced, and never changed: a reader or writer of an object uses the
//! list that it loaded. If an index was added since, a writer with the older list cannot swap
//! an object from which the new index has already been built: see `build`.

use std::borrow::Cow;
use std::ops::Deref;

use super::index::{Index, IndexFn};
use super::{NAMESPACE_INDEX, OWNER_INDEX};
use crate::engine::release::UserCode;
use crate::engine::sync::{self, Arc, ArcSwap, AtomicBool, Event, Mutex, Ordering, mutant};
use crate::engine::wait::wait;
use crate::error::{BoxError, IndexError};
use crate::{Fields, Labels, Owners};

/// Index functions by name (client-go `Indexers`), for
/// [`IndexReader::add_indexers`](crate::IndexReader::add_indexers).
pub struct Indexers<T> {
    definitions: Vec<Definition<T>>,
}

struct Definition<T> {
    name: String,
    is_shared: bool,
    function: UserCode<IndexFn<T>>,
}

impl<T> Default for Indexers<T> {
    fn default() -> Self {
        Self { definitions: Vec::new() }
    }
}

impl<T> Indexers<T> {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an index. Its function returns any number of values, and must return the same ones for
    /// the same object. It runs with no lock held.
    #[must_use]
    pub fn index(
        mut self,
        name: &str,
        function: impl Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.add(name.to_owned(), false, IndexFn::Values(Box::new(function)));
        self
    }

    /// Adds an index of the values of label `key`, which `meta` reads. [`Lister::select`] uses it,
    /// so `meta` must return the same labels as the accessor of the store. The name of the index is
    /// `label:` and the key.
    ///
    /// [`Lister::select`]: crate::Lister::select
    #[must_use]
    pub fn label(mut self, meta: impl Labels<T>, key: &str) -> Self {
        let label = key.to_owned();
        self.add(
            label_index(key),
            true,
            IndexFn::Label(Box::new(move |object| meta.label(object, &label))),
        );
        self
    }

    /// Adds the index [`OWNER_INDEX`] of the uids of the owners, which `meta` reads.
    #[must_use]
    pub fn owners(mut self, meta: impl Owners<T>) -> Self {
        let uids =
            move |object: &T| Ok(meta.owners(object).into_iter().map(Cow::into_owned).collect());
        self.add(OWNER_INDEX.to_owned(), true, IndexFn::Values(Box::new(uids)));
        self
    }

    /// Adds an index of the field that the JSON pointer `pointer` names, as `meta` reads it. The
    /// name of the index is `field:` and the pointer.
    #[must_use]
    pub fn field(mut self, meta: impl Fields<T>, pointer: &str) -> Self {
        let field = pointer.to_owned();
        let values = move |object: &T| {
            Ok(meta.field(object, &field)?.into_iter().map(Cow::into_owned).collect())
        };
        self.add(format!("field:{pointer}"), true, IndexFn::Values(Box::new(values)));
        self
    }

    fn add(&mut self, name: String, is_shared: bool, function: IndexFn<T>) {
        self.definitions.push(Definition { name, is_shared, function: UserCode::new(function) });
    }
}

/// Returns the name of the index of a label.
fn label_index(key: &str) -> String {
    format!("label:{key}")
}

pub(super) struct Indexes<T> {
    /// Whether there ever was an index. Frequent operations check only this.
    any: AtomicBool,
    list: ArcSwap<List<T>>,
    /// The lock that is held while the list is replaced.
    changing: Mutex<()>,
    /// Notified when a build has ended.
    build_ended: Event,
    /// The lock that serialises changes to an index under construction. Acquire it *before* reading
    /// the slot's known object.
    pub(super) building: Mutex<()>,
}

/// The indexes that exist at one time.
pub(super) struct List<T> {
    entries: Vec<IndexState<T>>,
}

struct IndexState<T> {
    index: Arc<Index<T>>,
    /// Whether readers find the index. Until then it is being built.
    built: bool,
    /// The number of the thread that builds the index, or has built it.
    builder: usize,
}

impl<T> Clone for IndexState<T> {
    fn clone(&self) -> Self {
        Self { index: self.index.clone(), built: self.built, builder: self.builder }
    }
}

impl<T> List<T> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Index<T>> {
        self.entries.iter().map(|entry| &*entry.index)
    }

    pub(super) fn at(&self, place: usize) -> &Index<T> {
        &self.entries[place].index
    }

    /// Returns the index of that name, or `None` if there is none or it is still being built.
    fn find(&self, name: &str) -> Option<&Index<T>> {
        self.entries
            .iter()
            .find(|entry| entry.built && entry.index.name == name)
            .map(|entry| &*entry.index)
    }

    /// Returns the index of label `key`, or `None` as [`find`](Self::find) does.
    pub(super) fn of_label(&self, key: &str) -> Option<&Index<T>> {
        self.find(&label_index(key)).filter(|index| index.is_of_label())
    }

    /// Returns whether an index is being built.
    pub(super) fn is_building(&self) -> bool {
        self.entries.iter().any(|entry| !entry.built)
    }
}

impl<T> Indexes<T> {
    pub(super) fn none_yet() -> Self {
        Self {
            any: AtomicBool::new(false),
            list: ArcSwap::from(Arc::new(List { entries: Vec::new() })),
            changing: Mutex::new(()),
            build_ended: Event::new(),
            building: Mutex::new(()),
        }
    }

    /// Creates the indexes of an empty store.
    pub(super) fn new(indexers: Indexers<T>) -> Result<Self, IndexError> {
        let all = Self::none_yet();
        let new = all.begin(indexers)?;
        all.finish(&new);
        Ok(all)
    }

    /// Returns whether there is no index, as far as this thread has seen.
    #[inline]
    pub(super) fn none(&self) -> bool {
        // Relaxed: a writer that must not miss an index finds a notice in the slot, which orders
        // the writer after the store in `begin` (see `build`).
        !self.any.load(Ordering::Relaxed)
    }

    pub(super) fn load(&self) -> impl Deref<Target = Arc<List<T>>> {
        self.list.load()
    }

    /// Calls `of` with the index of that name. Fails if there is none or it is still being built.
    pub(super) fn with<R>(
        &self,
        name: &str,
        of: impl FnOnce(&Index<T>) -> R,
    ) -> Result<R, IndexError> {
        self.load().find(name).map(of).ok_or_else(|| IndexError::Unknown(name.to_owned()))
    }

    /// Returns whether `list` is the newest list.
    pub(super) fn is_current(&self, list: &Arc<List<T>>) -> bool {
        Arc::ptr_eq(list, &self.load())
    }

    /// Adds those of the indexes that are missing, and returns them. The caller builds them. From
    /// now on writers update them. Waits while another thread builds an index with one of the
    /// names. Fails, and adds none, if a name is given twice, or if an index has it that cannot be
    /// shared or that this thread is building.
    pub(super) fn begin(&self, indexers: Indexers<T>) -> Result<Vec<Arc<Index<T>>>, IndexError> {
        let index = |Definition { name, is_shared, function }| {
            Arc::new(Index::new(name, is_shared, function))
        };
        // Made before the lock is taken, so that the functions of shared and refused indexes are
        // dropped after its release.
        let all: Vec<_> = indexers.definitions.into_iter().map(index).collect();
        wait(&self.build_ended, || self.try_begin(&all))
    }

    /// Does what [`begin`](Self::begin) does, but returns `None` instead of waiting.
    fn try_begin(&self, all: &[Arc<Index<T>>]) -> Option<Result<Vec<Arc<Index<T>>>, IndexError>> {
        let builder = sync::thread_number();
        let changing = self.changing.lock();
        let mut entries = self.load().entries.clone();
        let mut missing = Vec::new();
        for index in all {
            match entries.iter().find(|entry| entry.index.name == index.name) {
                None if index.name != NAMESPACE_INDEX => {
                    missing.push(index.clone());
                    entries.push(IndexState { index: index.clone(), built: false, builder });
                }
                // A thread does not wait for itself: an index function may call this.
                Some(entry) if !entry.built && entry.builder != builder => return None,
                Some(entry) if entry.built && entry.index.is_shared && index.is_shared => {}
                _ => return Some(Err(IndexError::Conflict(index.name.clone()))),
            }
        }
        if !missing.is_empty() {
            // Relaxed: as in `none`.
            self.any.store(true, Ordering::Relaxed);
            self.list.store(Arc::new(List { entries }));
        }
        drop(changing);
        Some(Ok(missing))
    }

    /// Makes the indexes visible to readers.
    pub(super) fn finish(&self, new: &[Arc<Index<T>>]) {
        self.replace(|entry| {
            let built = entry.built || is_among(new, entry);
            Some(IndexState { built, ..entry.clone() })
        });
    }

    /// Removes `new`, the indexes of a build that failed.
    pub(super) fn withdraw(&self, new: &[Arc<Index<T>>]) {
        self.replace(|entry| (!is_among(new, entry)).then(|| entry.clone()));
    }

    /// Ends a build: replaces each entry of the list by the result of `with`, or removes it. The
    /// caller has references to the removed indexes, so no index function is dropped under the
    /// lock.
    fn replace(&self, with: impl Fn(&IndexState<T>) -> Option<IndexState<T>>) {
        let changing = self.changing.lock();
        let entries = self.load().entries.iter().filter_map(with).collect();
        self.list.store(Arc::new(List { entries }));
        drop(changing);
        mutant!(BuildEndsUnnoticed => return);
        self.build_ended.notify(usize::MAX);
    }
}

fn is_among<T>(new: &[Arc<Index<T>>], entry: &IndexState<T>) -> bool {
    new.iter().any(|index| Arc::ptr_eq(index, &entry.index))
}
