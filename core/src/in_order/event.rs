//! The events of the log: [`Event`], and the list of a relist.

use std::fmt;

use crate::Delta;
use crate::engine::release::OneByOne;
use crate::engine::sync::Arc;
use crate::scope::Within;

/// An event of an [`InOrderFifo`](crate::InOrderFifo), as it was offered.
#[non_exhaustive]
pub enum Event<T> {
    /// A delta of one key.
    Delta {
        /// The key.
        key: Box<str>,
        /// The delta.
        delta: Delta<T>,
    },
    /// A relist: the list has all objects, and every other known object is gone (client-go
    /// `ReplacedAll`).
    ReplacedAll(Box<ReplacedAll<T>>),
    /// A resync: the handler is called for every known object (client-go `SyncAll`).
    SyncAll,
}

impl<T> Event<T> {
    /// Returns the key, if the event is a delta of one key.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Event::Delta { key, .. } => Some(key),
            Event::ReplacedAll(_) | Event::SyncAll => None,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Delta { key, delta } => write!(f, "{key}: {delta:?}"),
            Event::ReplacedAll(list) => write!(f, "ReplacedAll {list:?}"),
            Event::SyncAll => f.write_str("SyncAll"),
        }
    }
}

/// A relist as one event: all objects, in list order, with their keys (client-go
/// `ReplacedAllInfo`).
#[doc(alias = "ReplacedAllInfo")]
pub struct ReplacedAll<T> {
    version: Box<str>,
    keys: ReplacedKeys,
    objects: OneByOne<Vec<Arc<T>>>,
    kept: Vec<Box<str>>,
    keeps_unlisted: bool,
    /// The keys of the scope; `None` for the whole queue.
    within: Option<Within>,
    removes_scope: bool,
}

impl<T> ReplacedAll<T> {
    pub(super) fn new(
        version: &str,
        keys: ReplacedKeys,
        objects: OneByOne<Vec<Arc<T>>>,
        kept: Vec<Box<str>>,
    ) -> Self {
        Self {
            version: version.into(),
            keys,
            objects,
            kept,
            keeps_unlisted: false,
            within: None,
            removes_scope: false,
        }
    }

    /// Creates the relist by which a scope is removed.
    pub(super) fn removal(within: Within) -> Self {
        let none = Self::new("", ReplacedKeys::with_capacity(0), OneByOne::default(), Vec::new());
        Self { removes_scope: true, ..none.within(within) }
    }

    /// Returns the version of the list.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Iterates over all objects with their keys, in list order. If a key is listed twice, both
    /// objects are in the list, and the last one is stored.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<T>)> {
        self.keys.iter().zip(&*self.objects)
    }

    /// Iterates over the keys that are listed without an object. Their known objects stay. See
    /// [`replace_keeping`](crate::InOrderFifo::replace_keeping).
    #[must_use]
    pub fn kept(&self) -> impl ExactSizeIterator<Item = &str> {
        self.kept.iter().map(|key| &**key)
    }

    /// Returns whether all known objects stay, because the list contains an object without a key.
    /// Then [`covers`](Self::covers) is false for every key.
    pub(super) fn keeps_unlisted(&self) -> bool {
        self.keeps_unlisted
    }

    /// Returns whether this relist deletes `key` if it is known and not listed. False for every
    /// key of a [`replace_keeping_unlisted`](crate::InOrderFifo::replace_keeping_unlisted). In a
    /// relist of a [scope](crate::InOrderFifo::add_scope) also false for every key outside of the
    /// scope. May run the predicate of a scope.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        !self.keeps_unlisted && self.within.as_ref().is_none_or(|within| within.contains(key))
    }

    /// Returns whether this is the removal of a scope
    /// ([`remove_scope`](crate::InOrderFifo::remove_scope)). The objects that it deletes may still
    /// exist.
    #[must_use]
    pub fn removes_scope(&self) -> bool {
        self.removes_scope
    }

    /// Returns the namespace that this relist is limited to. Returns `None` if its scope is not a
    /// namespace, or if an older scope has a predicate.
    pub(super) fn namespace(&self) -> Option<&str> {
        let within = self.within.as_ref().filter(|within| within.is_plain());
        within.map(|within| within.scope.name())
    }

    pub(super) fn within(self, within: Within) -> Self {
        Self { within: Some(within), ..self }
    }

    pub(super) fn keeping_unlisted(self) -> Self {
        Self { keeps_unlisted: true, ..self }
    }
}

impl<T: fmt::Debug> fmt::Debug for ReplacedAll<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at version {:?}: ", self.version)?;
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The keys of a list, in one string. A `String` per key would cost as much as the rest of the
/// work.
pub(super) struct ReplacedKeys {
    text: String,
    /// The position in the string at which each key ends.
    ends: Vec<usize>,
}

impl ReplacedKeys {
    pub(super) fn with_capacity(keys: usize) -> Self {
        Self { text: String::new(), ends: Vec::with_capacity(keys) }
    }

    /// Adds the key that `write` appends, and returns it. Adds nothing if `write` fails.
    pub(super) fn add<E>(
        &mut self,
        write: impl FnOnce(&mut String) -> Result<(), E>,
    ) -> Result<&str, E> {
        let start = self.text.len();
        if let Err(error) = write(&mut self.text) {
            self.text.truncate(start);
            return Err(error);
        }
        self.ends.push(self.text.len());
        Ok(&self.text[start..])
    }

    /// Removes the last key.
    pub(super) fn pop(&mut self) {
        self.ends.pop();
        self.text.truncate(self.ends.last().copied().unwrap_or_default());
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.text[std::mem::replace(&mut start, end)..end])
    }
}

/// An event in the log.
pub(super) struct LogEntry<T> {
    pub(super) event: Event<T>,
    /// The hash of a delta's key, with which a batch checks that its keys differ. `None` for an
    /// event that is taken alone.
    pub(super) hash: Option<u64>,
    /// The number of marks of the initial population that end with the event.
    pub(super) marks: usize,
}

impl<T> LogEntry<T> {
    /// Creates the event of a relist.
    pub(super) fn whole(list: ReplacedAll<T>, marks: usize) -> Self {
        Self { event: Event::ReplacedAll(Box::new(list)), hash: None, marks }
    }

    /// Returns the weight of the event in the depth gauge: for a relist the number of its objects,
    /// but at least one; otherwise one.
    pub(super) fn weight(&self) -> usize {
        match &self.event {
            Event::ReplacedAll(list) => list.objects.len().max(1),
            Event::Delta { .. } | Event::SyncAll => 1,
        }
    }
}
