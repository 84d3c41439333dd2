//! Which indexes there are besides the built-in one, while some come and objects are read and
//! written.
//!
//! The list is never changed, only replaced: who reads or writes an object goes by the list that
//! it loaded. A writer with a list from before may not swap an object that an index has been built
//! from: see `build`.

use std::ops::Deref;

use super::NAMESPACE_INDEX;
use super::index::{Index, IndexFn};
use crate::engine::release::UserCode;
use crate::engine::sync::{Arc, ArcSwap, AtomicBool, Mutex, Ordering};
use crate::error::{BoxError, IndexError};

/// Index functions by name (client-go `Indexers`), for
/// [`IndexReader::add_indexers`](crate::IndexReader::add_indexers).
pub struct Indexers<T> {
    pub(super) functions: Vec<(String, IndexFn<T>)>,
}

impl<T> Default for Indexers<T> {
    fn default() -> Self {
        Self { functions: Vec::new() }
    }
}

impl<T> Indexers<T> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an index. Its function gives any number of values and must give the same ones for the
    /// same object; it runs with no lock held.
    #[must_use]
    pub fn index(
        mut self,
        name: &str,
        function: impl Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.functions.push((name.to_owned(), UserCode::new(Box::new(function))));
        self
    }
}

pub(super) struct Indexes<T> {
    /// Whether there ever was one: what is frequent looks here alone.
    any: AtomicBool,
    list: ArcSwap<List<T>>,
    /// Held by who replaces the list.
    changing: Mutex<()>,
    /// Held by who changes what an index has that is being built, and before that looks at what
    /// the slot knows.
    pub(super) turn: Mutex<()>,
}

/// All indexes at one time.
pub(super) struct List<T> {
    entries: Vec<Entry<T>>,
}

struct Entry<T> {
    index: Arc<Index<T>>,
    /// Readers find it; until then it is being built.
    built: bool,
}

impl<T> Clone for Entry<T> {
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

    /// The index of that name, if it is built.
    fn find(&self, name: &str) -> Option<&Index<T>> {
        self.entries.iter().find(|entry| entry.built && entry.index.name == name).map(|entry| &*entry.index)
    }

    /// Whether one is being built.
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
            turn: Mutex::new(()),
        }
    }

    /// Those of a store that is empty.
    pub(super) fn new(indexers: Indexers<T>) -> Result<Self, IndexError> {
        let all = Self::none_yet();
        let new = all.begin(indexers)?;
        all.finish(&new);
        Ok(all)
    }

    /// Whether there is none, as far as this thread has seen.
    #[inline]
    pub(super) fn none(&self) -> bool {
        // Relaxed: who may not miss an index finds a notice in the slot, and has an order to it by
        // that (`build`).
        !self.any.load(Ordering::Relaxed)
    }

    pub(super) fn load(&self) -> impl Deref<Target = Arc<List<T>>> {
        self.list.load()
    }

    /// What `of` says of the index of that name, if it is built.
    pub(super) fn with<R>(&self, name: &str, of: impl FnOnce(&Index<T>) -> R) -> Result<R, IndexError> {
        self.load().find(name).map(of).ok_or_else(|| IndexError::Unknown(name.to_owned()))
    }

    /// Those that are built, in the order in which they came.
    pub(super) fn names(&self) -> Vec<String> {
        self.load().entries.iter().filter(|entry| entry.built).map(|entry| entry.index.name.clone()).collect()
    }

    /// Whether `list` is the newest.
    pub(super) fn is_current(&self, list: &Arc<List<T>>) -> bool {
        Arc::ptr_eq(list, &self.load())
    }

    /// Adds indexes that are to be built: from here on writers put into them what they write.
    pub(super) fn begin(&self, indexers: Indexers<T>) -> Result<Vec<Arc<Index<T>>>, IndexError> {
        let changing = self.changing.lock();
        let mut entries = self.load().entries.clone();
        let before = entries.len();
        for (name, function) in indexers.functions {
            if name == NAMESPACE_INDEX || entries.iter().any(|entry| entry.index.name == name) {
                return Err(IndexError::Conflict(name));
            }
            entries.push(Entry { index: Arc::new(Index::new(name, function)), built: false });
        }
        let new = entries[before..].iter().map(|entry| entry.index.clone()).collect();
        if entries.len() > before {
            // Relaxed: as in `none`.
            self.any.store(true, Ordering::Relaxed);
            self.list.store(Arc::new(List { entries }));
        }
        drop(changing);
        Ok(new)
    }

    /// Readers find them from here on.
    pub(super) fn finish(&self, new: &[Arc<Index<T>>]) {
        self.replace(|entry| {
            let built = entry.built || is_among(new, entry);
            Some(Entry { built, ..entry.clone() })
        });
    }

    /// Takes them away again. None of them has an entry, nor will have.
    pub(super) fn withdraw(&self, new: &[Arc<Index<T>>]) {
        self.replace(|entry| (!is_among(new, entry)).then(|| entry.clone()));
    }

    fn replace(&self, with: impl Fn(&Entry<T>) -> Option<Entry<T>>) {
        let changing = self.changing.lock();
        let entries = self.load().entries.iter().filter_map(with).collect();
        self.list.store(Arc::new(List { entries }));
        drop(changing);
    }
}

fn is_among<T>(new: &[Arc<Index<T>>], entry: &Entry<T>) -> bool {
    new.iter().any(|index| Arc::ptr_eq(index, &entry.index))
}
