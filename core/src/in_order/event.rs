//! What the log holds and hands out: an [`Event`], and the list of a relist.

use std::fmt;

use crate::Delta;
use crate::engine::release::OneByOne;
use crate::engine::sync::Arc;
use crate::scope::Within;

/// One event of an [`InOrderFifo`](crate::InOrderFifo): what an offer brought, as it came.
#[non_exhaustive]
pub enum Event<T> {
    /// Something happened to one key.
    Delta {
        /// The key.
        key: Box<str>,
        /// What happened to it.
        delta: Delta<T>,
    },
    /// These are all objects there are, and whatever else is known is gone (client-go
    /// `ReplacedAll`).
    ReplacedAll(Box<ReplacedAll<T>>),
    /// Everything known is told of once more (client-go `SyncAll`).
    SyncAll,
}

impl<T> Event<T> {
    /// The key, if it is about one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Event::Delta { key, .. } => Some(key),
            Event::ReplacedAll(_) | Event::SyncAll => None,
        }
    }

    /// The delta, if it is about one key.
    #[must_use]
    pub fn delta(&self) -> Option<&Delta<T>> {
        match self {
            Event::Delta { delta, .. } => Some(delta),
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
pub struct ReplacedAll<T> {
    version: Box<str>,
    keys: Keys,
    objects: OneByOne<Vec<Arc<T>>>,
    kept: Vec<Box<str>>,
    keeps_unlisted: bool,
    /// The keys that it is about; `None`: all.
    within: Option<Within>,
}

impl<T> ReplacedAll<T> {
    pub(super) fn new(version: &str, keys: Keys, objects: OneByOne<Vec<Arc<T>>>, kept: Vec<Box<str>>) -> Self {
        Self { version: version.into(), keys, objects, kept, keeps_unlisted: false, within: None }
    }

    /// The list's version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// How many objects are listed. A key that is listed twice counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Every object with its key, in list order. Of a key that is listed twice the last one counts.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<T>)> {
        self.keys.iter().zip(&*self.objects)
    }

    /// Keys that are listed, too, but without an object: what is known under them stays as it is.
    /// See [`replace_keeping`](crate::InOrderFifo::replace_keeping).
    #[must_use]
    pub fn kept(&self) -> impl ExactSizeIterator<Item = &str> {
        self.kept.iter().map(|key| &**key)
    }

    /// Whether everything known stays, listed or not: an object is listed whose key could not be
    /// had. See [`replace_keeping_unlisted`](crate::InOrderFifo::replace_keeping_unlisted).
    #[must_use]
    pub fn keeps_unlisted(&self) -> bool {
        self.keeps_unlisted
    }

    /// Whether a key that is known and not listed is gone by this relist. False for every key
    /// outside of the scope, if this is the relist of one (see
    /// [`add_scope`](crate::InOrderFifo::add_scope)). May run the predicate of a scope.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        !self.keeps_unlisted && self.within.as_ref().is_none_or(|within| within.contains(key))
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

/// The keys of a list, in one piece of text: a `String` each would cost as much as the work.
pub(super) struct Keys {
    text: String,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Keys {
    pub(super) fn with_capacity(keys: usize) -> Self {
        Self { text: String::new(), ends: Vec::with_capacity(keys) }
    }

    /// Adds what `write` appends, and gives it back. Nothing when that fails.
    pub(super) fn add<E>(&mut self, write: impl FnOnce(&mut String) -> Result<(), E>) -> Result<&str, E> {
        let start = self.text.len();
        if let Err(error) = write(&mut self.text) {
            self.text.truncate(start);
            return Err(error);
        }
        self.ends.push(self.text.len());
        Ok(&self.text[start..])
    }

    /// Takes the last one out again.
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
pub(super) struct Entry<T> {
    pub(super) event: Event<T>,
    /// The hash of a delta's key, by which a batch keeps keys apart; none: the event goes alone.
    pub(super) hash: Option<u64>,
    /// Marks of the initial population that end with it.
    pub(super) marks: usize,
}

impl<T> Entry<T> {
    /// What it weighs in the depth gauge.
    pub(super) fn weight(&self) -> usize {
        match &self.event {
            Event::ReplacedAll(list) => list.len().max(1),
            Event::Delta { .. } | Event::SyncAll => 1,
        }
    }
}
