//! What there is, what there was, and who is told: objects, the log of changes, and the watchers.
//!
//! A version is servable while the log has every change after it; the *floor* is the oldest such
//! version. That one rule says which watches may start, which lists of a certain version can be
//! made, and which page tokens are still good. An older list is the newest one with the changes
//! since undone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use kube::core::Status;
use tokio::sync::mpsc::{OwnedPermit, Receiver, Sender, channel};

use crate::Resource;
use crate::generated::{Born, Generators};
use crate::object::{Draft, Key, Object};
use crate::request::Target;
use crate::selector::Filter;
use crate::walk::{Position, Walk};

/// What is told to a watch. It ends when nobody is left to tell it anything.
pub(crate) enum Signal {
    Change(Arc<Change>),
    /// Everything up to this version was told.
    Bookmark(u64),
    /// An ERROR event, and the end.
    Error(Arc<Status>),
    /// The connection is broken off.
    Break,
}

/// One write.
pub(crate) struct Change {
    pub(crate) version: u64,
    key: Key,
    pub(crate) before: Option<Arc<Object>>,
    pub(crate) after: Option<Arc<Object>>,
    /// Before it, the object was among the generated ones.
    born: bool,
}

/// An open watch.
pub(crate) struct Watcher {
    pub(crate) id: u64,
    pub(crate) bookmarks: bool,
    signals: Sender<Signal>,
    /// Room for what is told last, however full the buffer is.
    last: OwnedPermit<Signal>,
}

impl Watcher {
    /// With a buffer for so many signals.
    pub(crate) fn new(id: u64, bookmarks: bool, buffer: usize) -> (Self, Receiver<Signal>) {
        let (signals, receiver) = channel(buffer + 1);
        let last = signals.clone().try_reserve_owned().expect("a new channel has room");
        (Self { id, bookmarks, signals, last }, receiver)
    }

    /// Whether it listens and has room.
    pub(crate) fn tell(&self, signal: Signal) -> bool {
        self.signals.try_send(signal).is_ok()
    }
}

/// An object as it is.
pub(crate) struct Current {
    pub(crate) object: Arc<Object>,
    born: Option<Born>,
}

/// Everything of one resource.
pub(crate) struct Collection {
    pub(crate) resource: Arc<Resource>,
    stored: BTreeMap<Key, Arc<Object>>,
    pub(crate) generators: Arc<Generators>,
    /// Oldest first.
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

    /// What `key` is; `born` is the generated object of that name, if there is one, written since
    /// or not.
    pub(crate) fn current(&self, key: &Key, born: Option<(Born, Arc<Object>)>) -> Option<Current> {
        if let Some(object) = self.stored.get(key) {
            return Some(Current { object: Arc::clone(object), born: None });
        }
        let (born, object) = born.filter(|(born, _)| !self.generators.hides_now(*born))?;
        Some(Current { object, born: Some(born) })
    }

    /// The objects at a version, which is not below the floor. O(stored objects).
    pub(crate) fn walk(&self, version: u64, from: &Position, filter: Arc<Filter>) -> Walk {
        let stored = match from {
            Position::Behind(key) => self.stored_at(version, key),
            Position::At(_) => Vec::new(),
        };
        Walk::new(version, from, stored, Arc::clone(&self.generators), filter)
    }

    fn stored_at(&self, version: u64, behind: &Key) -> Vec<Arc<Object>> {
        let mut undone: BTreeMap<&Key, Option<&Arc<Object>>> = BTreeMap::new();
        for change in self.log.iter().rev().take_while(|change| change.version > version) {
            // Of several changes of a key the oldest has the last word.
            undone.insert(&change.key, change.before.as_ref().filter(|_| !change.born));
        }
        let range: (Bound<&Key>, Bound<&Key>) = (Bound::Excluded(behind), Bound::Unbounded);
        let stored =
            self.stored.range::<Key, _>(range).filter(|(key, _)| !undone.contains_key(key));
        let mut objects: Vec<Arc<Object>> = stored.map(|(_, object)| Arc::clone(object)).collect();
        if !undone.is_empty() {
            objects.extend(undone.range::<Key, _>(range).filter_map(|(_, object)| object.cloned()));
            objects.sort_by(|left, right| left.key.cmp(&right.key));
        }
        objects
    }
}

/// All resources, and the one counter of versions.
pub(crate) struct Store {
    /// The newest version.
    pub(crate) version: u64,
    pub(crate) collections: Vec<Collection>,
    log_size: usize,
    /// How many watches were opened.
    watches: u64,
    /// How many names were generated.
    names: usize,
}

impl Store {
    pub(crate) fn new(log_size: usize) -> Self {
        // Not 0, which would mean any version to a client that lists an empty server.
        Self { version: 1, collections: Vec::new(), log_size, watches: 0, names: 0 }
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

    /// Whether there is anything of its group and version.
    pub(crate) fn serves_group_of(&self, target: &Target) -> bool {
        self.collections.iter().any(|known| is_served(known, target))
    }

    /// Writes an object. `current` is what it was. Tells who watches.
    pub(crate) fn put(
        &mut self,
        place: usize,
        key: Key,
        current: Option<Current>,
        draft: Draft,
    ) -> Arc<Object> {
        self.version += 1;
        let object = Arc::new(draft.seal(key.clone(), self.version));
        self.collections[place].stored.insert(key.clone(), Arc::clone(&object));
        self.tell(place, key, current, Some(Arc::clone(&object)));
        object
    }

    /// Deletes an object: what is shown of it is of the deletion's version.
    pub(crate) fn remove(&mut self, place: usize, current: Current) -> Arc<Object> {
        self.version += 1;
        let gone = Arc::new(current.object.at(self.version));
        self.collections[place].stored.remove(&gone.key);
        self.tell(place, gone.key.clone(), Some(current), None);
        gone
    }

    fn tell(
        &mut self,
        place: usize,
        key: Key,
        current: Option<Current>,
        after: Option<Arc<Object>>,
    ) {
        let version = self.version;
        let collection = &mut self.collections[place];
        let born = current.as_ref().and_then(|current| current.born);
        if let Some(born) = born {
            Arc::make_mut(&mut collection.generators).hide(born, version);
        }
        let before = current.map(|current| current.object);
        let change = Arc::new(Change { version, key, before, after, born: born.is_some() });
        collection.log.push_back(Arc::clone(&change));
        while collection.log.len() > self.log_size {
            collection.floor =
                collection.log.pop_front().map_or(collection.floor, |oldest| oldest.version);
        }
        // Who is too far behind ends, as at the real server, after what is in the buffer.
        collection.watchers.retain(|watcher| watcher.tell(Signal::Change(Arc::clone(&change))));
    }

    /// Forgets the log of a resource, and every version up to now.
    pub(crate) fn compact(&mut self, place: usize) {
        let collection = &mut self.collections[place];
        collection.log.clear();
        collection.floor = self.version;
    }

    /// Another number for each watch.
    pub(crate) fn watch_id(&mut self) -> u64 {
        self.watches += 1;
        self.watches
    }

    /// Another number for each generated name.
    pub(crate) fn next_name(&mut self) -> usize {
        self.names += 1;
        self.names
    }

    /// Takes the open watches of a resource, or of all, out and tells each of them something last,
    /// if there is something to tell.
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
