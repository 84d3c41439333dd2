//! The server's state: objects, the log of changes, and the open watches.
//!
//! A version is servable while the log has every change after it; the *floor* is the oldest such
//! version. This one rule decides from which versions a watch may start, at which exact versions a
//! list can be read, and which page tokens are valid. A list of an older version is the newest list
//! with the later changes undone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use kube::core::Status;
use tokio::sync::mpsc::{OwnedPermit, Receiver, Sender, channel};

use crate::Resource;
use crate::collect::Collector;
use crate::generated::{GeneratedId, Generators};
use crate::object::{Draft, Key, Object};
use crate::request::Target;
use crate::selector::Filter;
use crate::walk::{Position, Walk};

/// A message to an open watch. Dropping its sender ends the watch.
pub(crate) enum Signal {
    Change(Arc<Change>),
    /// A bookmark: all changes up to this version have been sent.
    Bookmark(u64),
    /// An ERROR event, after which the watch ends.
    Error(Arc<Status>),
    /// An order to break the connection.
    Break,
}

/// The record of one write.
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Object>>,
    pub(crate) after: Option<Arc<Object>>,
    /// Whether the object was a generated one before this write.
    generated: bool,
}

/// The sending side of an open watch.
pub(crate) struct Watcher {
    pub(crate) id: u64,
    pub(crate) bookmarks: bool,
    signals: Sender<Signal>,
    /// The reserved room for the last signal, which can be sent even if the buffer is full.
    last: OwnedPermit<Signal>,
}

impl Watcher {
    /// Creates a watcher whose buffer has room for `buffer` signals.
    pub(crate) fn new(id: u64, bookmarks: bool, buffer: usize) -> (Self, Receiver<Signal>) {
        let (signals, receiver) = channel(buffer + 1);
        let last = signals.clone().try_reserve_owned().expect("a new channel has room");
        (Self { id, bookmarks, signals, last }, receiver)
    }

    /// Sends a signal. Returns false if the watch is gone or its buffer is full.
    pub(crate) fn send(&self, signal: Signal) -> bool {
        self.signals.try_send(signal).is_ok()
    }
}

/// The current state of an object, and its id if it is a generated one.
pub(crate) struct Current {
    pub(crate) object: Arc<Object>,
    generated: Option<GeneratedId>,
}

/// All data of one resource.
pub(crate) struct Collection {
    pub(crate) resource: Arc<Resource>,
    pub(crate) stored: BTreeMap<Key, Arc<Object>>,
    pub(crate) generators: Arc<Generators>,
    /// The changes, oldest first.
    pub(crate) log: VecDeque<Arc<Change>>,
    pub(crate) floor: u64,
    pub(crate) watchers: Vec<Watcher>,
}

impl Collection {
    fn new(resource: Resource) -> Self {
        Self {
            resource: Arc::new(resource),
            stored: BTreeMap::new(),
            generators: Arc::default(),
            log: VecDeque::new(),
            floor: 0,
            watchers: Vec::new(),
        }
    }

    /// Returns the current object of `key`. `generated` is the generated object of that key, if
    /// there is one, even if it is hidden because of a write or deletion.
    pub(crate) fn current(
        &self,
        key: &Key,
        generated: Option<(GeneratedId, Arc<Object>)>,
    ) -> Option<Current> {
        if let Some(object) = self.stored.get(key) {
            return Some(Current { object: Arc::clone(object), generated: None });
        }
        let (generated, object) =
            generated.filter(|(generated, _)| !self.generators.hides_now(*generated))?;
        Some(Current { object, generated: Some(generated) })
    }

    /// Returns the current state of a stored object.
    pub(crate) fn stored(&self, key: &Key) -> Option<Current> {
        let object = self.stored.get(key)?;
        Some(Current { object: Arc::clone(object), generated: None })
    }

    /// Returns a walk over the objects at a version, which must not be below the floor. The caller
    /// takes at most `most` objects. Without selectors, takes time in proportion to `most`, and to
    /// the number of changes since the version.
    pub(crate) fn walk(
        &self,
        version: u64,
        from: &Position,
        filter: Arc<Filter>,
        most: usize,
    ) -> Walk {
        let stored = self.stored_at(version, from, &filter, most);
        Walk::new(version, from, stored, Arc::clone(&self.generators), filter)
    }

    /// Returns the number of objects behind a position at a version, if it is known without
    /// producing them, and the filter has no selectors. Takes time in proportion to the number of
    /// stored objects behind the position, except for the number of all objects.
    pub(crate) fn count(&self, version: u64, from: &Position, filter: &Filter) -> Option<u64> {
        let generated = self.generators.count(from.generated(), version);
        if filter.has_selectors() || generated > 0 && !filter.is_everything() {
            return None;
        }
        let stored = if filter.is_everything() && *from == Position::start() {
            let undone = self.undone(version);
            let now = undone.keys().filter(|key| self.stored.contains_key(**key)).count();
            self.stored.len() + undone.values().flatten().count() - now
        } else {
            self.stored_at(version, from, filter, usize::MAX).len()
        };
        Some(stored as u64 + generated)
    }

    /// Returns the first `most` objects behind a position that match the filter and are stored at
    /// a version, in order.
    fn stored_at(
        &self,
        version: u64,
        from: &Position,
        filter: &Filter,
        most: usize,
    ) -> Vec<Arc<Object>> {
        let Position::Behind(behind) = from else { return Vec::new() };
        let namespace = filter.namespace();
        let start = Key { namespace: namespace.unwrap_or_default().to_owned(), ..Key::default() };
        let range = (Bound::Excluded(behind.max(&start)), Bound::Unbounded);
        let is_in = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let matches = |object: &&Arc<Object>| filter.matches(object);

        let undone = self.undone(version);
        let stored = self.stored.range::<Key, _>(range).take_while(|(key, _)| is_in(key));
        let stored = stored.filter(|(key, _)| !undone.contains_key(key)).map(|(_, object)| object);
        let mut objects: Vec<_> = stored.filter(matches).take(most).cloned().collect();
        if !undone.is_empty() {
            let before = undone.range::<Key, _>(range).take_while(|(key, _)| is_in(key));
            let before = before.filter_map(|(_, object)| *object);
            objects.extend(before.filter(matches).take(most).cloned());
            objects.sort_by(|left, right| left.key.cmp(&right.key));
            objects.truncate(most);
        }
        objects
    }

    /// Returns the keys of the objects that have changed since a version, with those that were
    /// stored at the version.
    fn undone(&self, version: u64) -> BTreeMap<&Key, Option<&Arc<Object>>> {
        let mut undone = BTreeMap::new();
        for change in self.log.iter().rev().take_while(|change| change.version > version) {
            // Changes are undone from the newest to the oldest, so the oldest change of a key
            // decides.
            undone.insert(&change.key, change.before.as_ref().filter(|_| !change.generated));
        }
        undone
    }
}

/// All resources, and the counter of versions that they share.
pub(crate) struct Store {
    /// The newest version.
    pub(crate) version: u64,
    pub(crate) collections: Vec<Collection>,
    /// The work of the garbage collector, and of the deletion of namespaces.
    pub(crate) collector: Collector,
    /// Whether the server records the managers of the fields of all objects that clients write.
    pub(crate) tracks_fields: bool,
    log_size: usize,
    /// The number of watches opened so far.
    watches: u64,
    /// The number of the last generated name that an object has.
    names: usize,
    /// Whether writes return their results and store nothing.
    is_dry: bool,
}

impl Store {
    pub(crate) fn new(log_size: usize, collector: Collector, tracks_fields: bool) -> Self {
        // Starts at 1, because a client that lists an empty server takes 0 for "any version".
        Self {
            version: 1,
            collections: Vec::new(),
            collector,
            tracks_fields,
            log_size,
            watches: 0,
            names: 0,
            is_dry: false,
        }
    }

    /// Calls `act`. In a dry run, the writes that it makes return their results and store nothing.
    pub(crate) fn run<R>(&mut self, is_dry: bool, act: impl FnOnce(&mut Self) -> R) -> R {
        /// Ends the dry run, even if `act` panics: the next write must be real.
        struct End<'s>(&'s mut Store);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.is_dry = false;
            }
        }
        self.is_dry = is_dry;
        let end = End(self);
        act(end.0)
    }

    /// Returns the version of the next object that is created. In a dry run this is 0, which no
    /// object has: its uid is not that of another object.
    pub(crate) fn next_version(&self) -> u64 {
        if self.is_dry { 0 } else { self.version + 1 }
    }

    pub(crate) fn register(&mut self, resource: Resource) {
        if self.place_of(&resource).is_none() {
            self.collections.push(Collection::new(resource));
        }
    }

    pub(crate) fn place_of(&self, resource: &Resource) -> Option<usize> {
        self.collections.iter().position(|known| known.resource.is_same_as(resource))
    }

    pub(crate) fn place_of_target(&self, target: &Target) -> Option<usize> {
        let is_it = |known: &Collection| {
            known.resource.api.plural == target.plural && is_served(known, target)
        };
        self.collections.iter().position(is_it)
    }

    pub(crate) fn place_of_kind(&self, kind: &str, api_version: &str) -> Option<usize> {
        let is_it = |known: &Resource| known.kind() == kind && known.api_version() == api_version;
        self.collections.iter().position(|known| is_it(&known.resource))
    }

    /// Returns whether a resource of this group and version is served.
    pub(crate) fn serves_group_of(&self, target: &Target) -> bool {
        self.collections.iter().any(|known| is_served(known, target))
    }

    /// Writes an object and sends the change to the watches. `current` is the object's state before
    /// the write. In a dry run, the object keeps the version of that state.
    pub(crate) fn put(
        &mut self,
        place: usize,
        key: Key,
        current: Option<Current>,
        draft: Draft,
    ) -> Arc<Object> {
        if self.is_dry {
            let version = current.map_or(0, |current| current.object.version);
            return Arc::new(draft.seal(key, version));
        }
        self.version += 1;
        let object = Arc::new(draft.seal(key.clone(), self.version));
        self.collections[place].stored.insert(key.clone(), Arc::clone(&object));
        self.record(place, key, current, Some(Arc::clone(&object)));
        object
    }

    /// Deletes an object. Returns its last state with the version of the deletion; in a dry run,
    /// with its own version.
    pub(crate) fn remove(&mut self, place: usize, current: Current) -> Arc<Object> {
        if self.is_dry {
            return current.object;
        }
        self.version += 1;
        let gone = Arc::new(current.object.at(self.version));
        self.collections[place].stored.remove(&gone.key);
        self.record(place, gone.key.clone(), Some(current), None);
        gone
    }

    fn record(
        &mut self,
        place: usize,
        key: Key,
        current: Option<Current>,
        after: Option<Arc<Object>>,
    ) {
        let version = self.version;
        let collection = &mut self.collections[place];
        let generated = current.as_ref().and_then(|current| current.generated);
        if let Some(generated) = generated {
            Arc::make_mut(&mut collection.generators).hide(generated, version);
        }
        let before = current.map(|current| current.object);
        let change =
            Arc::new(Change { version, key, before, after, generated: generated.is_some() });
        self.collector.note(place, &collection.resource, &change);
        collection.log.push_back(Arc::clone(&change));
        while collection.log.len() > self.log_size {
            collection.floor =
                collection.log.pop_front().map_or(collection.floor, |oldest| oldest.version);
        }
        // A watch whose buffer is full ends after the buffered changes, as in the real server.
        collection.watchers.retain(|watcher| watcher.send(Signal::Change(Arc::clone(&change))));
    }

    /// Drops the log of a resource, so that every version before the current one is refused.
    pub(crate) fn compact(&mut self, place: usize) {
        let collection = &mut self.collections[place];
        collection.log.clear();
        collection.floor = self.version;
    }

    /// Returns a new number for a watch.
    pub(crate) fn watch_id(&mut self) -> u64 {
        self.watches += 1;
        self.watches
    }

    /// Returns the number of the next generated name.
    pub(crate) fn next_name(&self) -> usize {
        self.names + 1
    }

    /// Notes that an object has the generated name of this number.
    pub(crate) fn use_name(&mut self, number: usize) {
        self.names = self.names.max(number);
    }

    /// Removes the open watches of the resource whose collection has the index `place`, or of all
    /// resources if `place` is `None`. Sends each watch the signal that `last` returns, if any.
    /// Returns the number of watches.
    pub(crate) fn end_watches(
        &mut self,
        place: Option<usize>,
        last: impl Fn() -> Option<Signal>,
    ) -> usize {
        let mut ended = 0;
        for (at, collection) in self.collections.iter_mut().enumerate() {
            if place.is_some_and(|place| place != at) {
                continue;
            }
            for watcher in collection.watchers.drain(..) {
                ended += 1;
                if let Some(signal) = last() {
                    watcher.last.send(signal);
                }
            }
        }
        ended
    }
}

fn is_served(known: &Collection, target: &Target) -> bool {
    known.resource.api.group == target.group && known.resource.api.version == target.version
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use serde_json::json;

    use super::Store;
    use crate::Resource;
    use crate::collect::Collector;
    use crate::object::{Draft, Key};

    #[test]
    fn write_after_a_panic_in_a_dry_run_is_stored() {
        let mut store = Store::new(1, Collector::new(false), false);
        store.register(Resource::pods());
        let panicking = || store.run(true, |_| panic!("as the test wants"));
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
        let draft = Draft::new(json!({}), &Resource::pods()).unwrap();
        store.put(0, Key::default(), None, draft);
        assert_eq!(store.collections[0].stored.len(), 1);
    }
}
