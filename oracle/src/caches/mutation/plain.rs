//! The plain cache: a map of the store's objects, and a list of the writes and deletions of which
//! the cache was notified.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Setup, TTL};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Object {
    pub(super) name: &'static str,
    pub(super) uid: &'static str,
    pub(super) version: &'static str,
    pub(super) node: &'static str,
    /// A number that no other object has.
    pub(super) number: u32,
}

impl Object {
    fn version(&self) -> Result<u128, Refusal> {
        self.version.parse().map_err(|_| Refusal::Version)
    }

    fn key(&self) -> Result<&'static str, Refusal> {
        if self.name.is_empty() { Err(Refusal::Key) } else { Ok(self.name) }
    }

    /// Returns whether both are states of one object.
    fn is_same(&self, other: &Self) -> bool {
        !self.uid.is_empty() && self.uid == other.uid
    }
}

/// The reason why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Key,
    Version,
}

/// An entry for a name: a write of `object` that may be newer than the stored object, or the
/// deletion of `object`.
#[derive(Clone)]
struct KnownWrite {
    object: Arc<Object>,
    version: u128,
    is_gone: bool,
    /// The time at which the entry was recorded.
    since: u64,
}

/// The plain cache, which the real one is compared with.
pub(super) struct Plain {
    setup: Setup,
    pub(super) stored: BTreeMap<&'static str, Arc<Object>>,
    /// The entries, sorted by their last access.
    known: Vec<KnownWrite>,
    pub(super) now: u64,
}

impl Plain {
    pub(super) fn new(setup: Setup) -> Self {
        Self { setup, stored: BTreeMap::new(), known: Vec::new(), now: 0 }
    }

    fn is_over(&self, known: &KnownWrite) -> bool {
        !self.setup.for_ever && self.now - known.since > TTL
    }

    fn forget(&mut self, name: &str) {
        self.known.retain(|known| known.object.name != name);
    }

    /// Returns the entry of a name unless it has expired. The call counts as an access.
    fn entry(&mut self, name: &str) -> Option<KnownWrite> {
        let place = self.known.iter().position(|known| known.object.name == name)?;
        let known = self.known.remove(place);
        if self.is_over(&known) {
            return None;
        }
        self.known.push(known.clone());
        Some(known)
    }

    fn record(&mut self, object: Arc<Object>, version: u128, is_gone: bool) {
        self.forget(object.name);
        if self.known.len() == self.setup.capacity {
            self.known.remove(0);
        }
        self.known.push(KnownWrite { object, version, is_gone, since: self.now });
    }

    pub(super) fn mutation(&mut self, object: Arc<Object>) -> Result<(), Refusal> {
        let (name, version) = (object.key()?, object.version()?);
        let counts = match self.entry(name) {
            None => true,
            // A deletion ends all writes of the deleted object, and all writes of another object
            // that are not newer.
            Some(known) if known.is_gone => {
                version > known.version && !object.is_same(&known.object)
            }
            Some(known) => version >= known.version,
        };
        if counts {
            self.record(object, version, false);
        }
        Ok(())
    }

    pub(super) fn on_add_or_update(&mut self, object: &Object) -> Result<(), Refusal> {
        let name = object.key()?;
        if let Some(known) = self.entry(name)
            && object.version()? >= known.version
        {
            self.forget(name);
        }
        Ok(())
    }

    pub(super) fn on_delete(&mut self, object: Arc<Object>) -> Result<(), Refusal> {
        let (name, version) = (object.key()?, object.version()?);
        if self
            .entry(name)
            .is_none_or(|known| version >= known.version || object.is_same(&known.object))
        {
            self.record(object, version, true);
        }
        Ok(())
    }

    pub(super) fn get(&mut self, name: &str) -> Result<Option<Arc<Object>>, Refusal> {
        match self.entry(name) {
            Some(known) => self.newer(&known),
            None => Ok(self.stored.get(name).cloned()),
        }
    }

    /// Returns the newer one of the store's object and the known write. Drops the known write if
    /// it is not newer.
    fn newer(&mut self, known: &KnownWrite) -> Result<Option<Arc<Object>>, Refusal> {
        let written = (!known.is_gone).then(|| known.object.clone());
        let Some(stored) = self.stored.get(known.object.name).cloned() else {
            return Ok(written.filter(|_| self.setup.include_adds));
        };
        if stored.version()? >= known.version {
            self.forget(stored.name);
            return Ok(Some(stored));
        }
        Ok(Some(written.unwrap_or(stored)))
    }

    pub(super) fn by_index(&mut self, value: &str) -> Result<Vec<Arc<Object>>, Refusal> {
        let mut all = self.stored.clone();
        for known in self.known.clone() {
            if self.is_over(&known) || known.is_gone {
                continue;
            }
            if let Some(object) = self.newer(&known)? {
                all.insert(object.name, object);
            }
        }
        Ok(all.into_values().filter(|object| object.node == value && value != "none").collect())
    }
}
