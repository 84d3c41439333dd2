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
use crate::engine::sync::{Arc, ArcSwap, AtomicBool, Mutex, Ordering};
use crate::error::{BoxError, IndexError};
use crate::{Fields, Labels, Owners};

/// Index functions by name (client-go `Indexers`), for
/// [`IndexReader::add_indexers`](crate::IndexReader::add_indexers).
pub struct Indexers<T> {
    definitions: Vec<Definition<T>>,
}

struct Definition<T> {
    name: String,
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
        self.add(name.to_owned(), IndexFn::Values(Box::new(function)));
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
            IndexFn::Label(Box::new(move |object| meta.label(object, &label))),
        );
        self
    }

    /// Adds the index [`OWNER_INDEX`] of the uids of the owners, which `meta` reads.
    #[must_use]
    pub fn owners(mut self, meta: impl Owners<T>) -> Self {
        let uids =
            move |object: &T| Ok(meta.owners(object).into_iter().map(Cow::into_owned).collect());
        self.add(OWNER_INDEX.to_owned(), IndexFn::Values(Box::new(uids)));
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
        self.add(format!("field:{pointer}"), IndexFn::Values(Box::new(values)));
        self
    }

    fn add(&mut self, name: String, function: IndexFn<T>) {
        self.definitions.push(Definition { name, function: UserCode::new(function) });
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
}

impl<T> Clone for IndexState<T> {
    fn clone(&self) -> Self {
        Self { index: self.index.clone(), built: self.built }
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

    /// Adds indexes that are to be built. From then on writers update them. Fails, and adds none,
    /// if a name is already used.
    pub(super) fn begin(&self, indexers: Indexers<T>) -> Result<Vec<Arc<Index<T>>>, IndexError> {
        // Made before the lock is taken, so that refused functions are dropped after its release.
        let new: Vec<_> = indexers
            .definitions
            .into_iter()
            .map(|Definition { name, function }| Arc::new(Index::new(name, function)))
            .collect();
        let changing = self.changing.lock();
        let mut entries = self.load().entries.clone();
        for index in &new {
            let is_taken = entries.iter().any(|entry| entry.index.name == index.name);
            if is_taken || index.name == NAMESPACE_INDEX {
                return Err(IndexError::Conflict(index.name.clone()));
            }
            entries.push(IndexState { index: index.clone(), built: false });
        }
        if !new.is_empty() {
            // Relaxed: as in `none`.
            self.any.store(true, Ordering::Relaxed);
            self.list.store(Arc::new(List { entries }));
        }
        drop(changing);
        Ok(new)
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

    /// Replaces each entry of the list by the result of `with`, or removes it. The caller has
    /// references to the removed indexes, so no index function is dropped under the lock.
    fn replace(&self, with: impl Fn(&IndexState<T>) -> Option<IndexState<T>>) {
        let changing = self.changing.lock();
        let entries = self.load().entries.iter().filter_map(with).collect();
        self.list.store(Arc::new(List { entries }));
        drop(changing);
    }
}

fn is_among<T>(new: &[Arc<Index<T>>], entry: &IndexState<T>) -> bool {
    new.iter().any(|index| Arc::ptr_eq(index, &entry.index))
}
