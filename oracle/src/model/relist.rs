//! The relists of the model. At most one relist of the whole queue, or one of each scope, is
//! current; a newer relist supersedes it. The commit deletes every key that the relist did not list
//! and that was not written while the relist was open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltafifo::{
    Committed, DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, KeyError, OfferError,
    RelistError, StoreError,
};

use super::scopes::Within;
use super::{Initial, Later, Model};

/// The treatment of listed objects that are unchanged: known, idle and of an equal version.
pub struct Unchanged<T> {
    /// The function that returns an object's version.
    pub version: fn(&T) -> &str,
    /// Whether a relist skips unchanged objects.
    pub skip: bool,
    /// Whether a relist queues unchanged objects as well. If so, `skip` has no effect, and a probe
    /// returns that every object is needed.
    pub notify: bool,
}

/// A relist that is current.
pub(super) struct Open {
    number: u32,
    /// The keys of the relist's scope; `None` for the whole queue.
    pub(super) within: Option<Within>,
    /// Whether the relist's deltas belong to the initial population.
    first: bool,
    /// Whether the relist is the removal of its scope.
    removes_scope: bool,
    /// Whether an object of an equal version counts as changed.
    ignores_versions: bool,
    /// The keys that the relist listed, or that were written since it began.
    listed: BTreeSet<String>,
}

impl Open {
    pub(super) fn new(number: u32, within: Option<Within>, first: bool) -> Self {
        Self {
            number,
            within,
            first,
            removes_scope: false,
            ignores_versions: false,
            listed: BTreeSet::new(),
        }
    }

    /// Creates the relist by which a scope is removed.
    pub(super) fn removal(within: Within) -> Self {
        Self { removes_scope: true, ..Self::new(0, Some(within), false) }
    }

    pub(super) fn is_of(&self, scope: u32) -> bool {
        self.within.as_ref().is_some_and(|within| within.scope == scope)
    }

    /// Returns whether the relist can list and delete the key.
    fn covers(&self, key: &str) -> bool {
        self.within.as_ref().is_none_or(|within| within.contains(key))
    }

    fn check_scope(&self, key: &str) -> Result<(), RelistError> {
        if self.covers(key) {
            return Ok(());
        }
        Err(RelistError::OutOfScope { key: key.to_owned(), scope: String::new(), older: None })
    }
}

impl<T> Model<T> {
    /// Queues the listed objects, and a deletion of every other key.
    ///
    /// # Errors
    /// The queue has scopes, or an object was refused. The objects before a refused one stay
    /// queued, and the initial population is not complete.
    pub fn replace(&mut self, list: Vec<Arc<T>>, version: &str) -> Result<Committed, RelistError> {
        let number = |version: &str| version.parse::<u64>().ok();
        let before = self.version.as_deref().and_then(number);
        let relist = self.begin_replace();
        // A list at a lower version than the previous one means that the server was restored.
        self.current(relist)?.ignores_versions =
            before.is_some_and(|before| number(version).is_some_and(|version| version < before));
        for (index, object) in list.into_iter().enumerate() {
            if let Err(source) = self.list_object(relist, object) {
                self.abandon(relist);
                return Err(RelistError::Refused { index, source });
            }
        }
        self.commit(relist, version)
    }

    /// Begins a relist in pieces, and returns its number. In a queue with scopes, the relist is
    /// superseded from the start.
    pub fn begin_replace(&mut self) -> u32 {
        let number = self.next_number();
        if self.scopes.is_empty() {
            let first = self.claim();
            self.open = vec![Open::new(number, None, first)];
        }
        number
    }

    /// Returns the next number of a relist or a scope.
    pub(super) fn next_number(&mut self) -> u32 {
        self.relists += 1;
        self.relists
    }

    /// Claims the initial population for a relist or a new scope. Returns whether that relist or
    /// scope belongs to the initial population.
    pub(super) fn claim(&mut self) -> bool {
        if self.initial == Initial::Unpopulated {
            self.initial = Initial::Claimed;
        }
        matches!(self.initial, Initial::Claimed | Initial::Touched)
    }

    fn current(&mut self, relist: u32) -> Result<&mut Open, RelistError> {
        let found = self.open.iter_mut().find(|open| open.number == relist);
        found.ok_or(RelistError::Superseded)
    }

    /// Offers a page. Returns the positions of the refused objects in the page.
    ///
    /// # Errors
    /// The relist was superseded.
    pub fn offer_page(
        &mut self,
        relist: u32,
        page: Vec<Arc<T>>,
    ) -> Result<Vec<usize>, RelistError> {
        self.current(relist)?;
        Ok(page
            .into_iter()
            .enumerate()
            .filter_map(|(at, object)| self.list_object(relist, object).err().map(|_| at))
            .collect())
    }

    /// Returns, for each pair of a key and a version, whether the caller must offer the object: it
    /// is not [unchanged](Unchanged), or the model queues unchanged objects as well. Records all
    /// these keys as listed.
    ///
    /// # Errors
    /// The relist was superseded, or a key is outside of the relist's scope.
    pub fn probe(
        &mut self,
        relist: u32,
        listed: &[(&str, &str)],
    ) -> Result<Vec<bool>, RelistError> {
        let open = self.current(relist)?;
        listed.iter().try_for_each(|(key, _)| open.check_scope(key))?;
        open.listed.extend(listed.iter().map(|(key, _)| (*key).to_owned()));
        Ok(listed.iter().map(|(key, version)| self.is_needed(key, version)).collect())
    }

    fn is_needed(&self, key: &str, version: &str) -> bool {
        let notify = self.unchanged.as_ref().is_some_and(|unchanged| unchanged.notify);
        notify || self.unchanged_object(key, version).is_none()
    }

    /// Records a key as listed, so that the commit does not delete it.
    ///
    /// # Errors
    /// The relist was superseded, or the key is outside of the relist's scope.
    pub fn keep(&mut self, relist: u32, key: &str) -> Result<(), RelistError> {
        let open = self.current(relist)?;
        open.check_scope(key)?;
        open.listed.insert(key.to_owned());
        Ok(())
    }

    /// Deletes a key as a part of a relist. If the transformer refuses the object, deletes the key
    /// with a tombstone, and returns the error as well.
    ///
    /// # Errors
    /// The relist was superseded, the object has no key, the key is outside of the relist's scope,
    /// or the transformer refused the object.
    pub fn delete_in(
        &mut self,
        relist: u32,
        object: impl Into<DeltaObject<T>>,
    ) -> Result<(), StoreError> {
        self.current(relist)?;
        let object = object.into();
        let key = self.key_of(&object)?;
        let open = self.current(relist)?;
        open.check_scope(&key)?;
        let first = open.first;
        if !self.exists(&key) {
            return Ok(());
        }
        match self.transform_deleted(&key, object) {
            Ok(object) => self.push_deletion(&key, object, first),
            Err(refused) => {
                self.push_sweep(&key, first, false);
                return Err(refused.into());
            }
        }
        Ok(())
    }

    /// Commits the relist, which deletes the unlisted keys.
    ///
    /// # Errors
    /// The relist was superseded.
    pub fn commit(&mut self, relist: u32, version: &str) -> Result<Committed, RelistError> {
        let open = self.take_open(relist)?;
        let deleted = self.delete_unlisted(&open);
        if let Some(within) = open.within {
            self.listed_scope(within.scope, version, open.first);
        } else {
            self.version = Some(version.to_owned());
            if open.first {
                self.initial = Initial::Draining;
            }
            self.finish_initial();
        }
        Ok(Committed { deleted })
    }

    fn take_open(&mut self, relist: u32) -> Result<Open, RelistError> {
        let at = self.open.iter().position(|open| open.number == relist);
        Ok(self.open.remove(at.ok_or(RelistError::Superseded)?))
    }

    /// Abandons a relist. Does nothing if it was superseded.
    pub fn abandon(&mut self, relist: u32) {
        // The first list of a scope is still awaited.
        if !self.take_open(relist).is_ok_and(|open| open.within.is_none()) {
            return;
        }
        match self.initial {
            Initial::Claimed => self.initial = Initial::Unpopulated,
            Initial::Touched => self.initial = Initial::Synced,
            _ => {}
        }
    }

    /// Records a written key as listed by all open relists, so that none of them deletes it.
    pub(super) fn note_listed(&mut self, key: &str) {
        for open in &mut self.open {
            open.listed.insert(key.to_owned());
        }
    }

    /// Lists an object in a relist that is current.
    fn list_object(&mut self, relist: u32, object: Arc<T>) -> Result<(), OfferError> {
        let key = (self.key)(&object).ok_or(KeyError::NoName)?;
        let Ok(open) = self.current(relist) else { unreachable!("the caller has checked it") };
        if !open.covers(&key) {
            return Err(OfferError::OutOfScope { key, scope: String::new(), older: None });
        }
        // The key counts as listed even if the transformer refuses the object. Otherwise the commit
        // would delete the last object that it accepted.
        open.listed.insert(key.clone());
        let (first, ignores_versions) = (open.first, open.ignores_versions);
        let object = self.transform(&key, object)?;
        let skips = self.unchanged.as_ref().filter(|unchanged| unchanged.skip && !unchanged.notify);
        let is_unchanged = skips.is_some_and(|unchanged| {
            self.unchanged_object(&key, (unchanged.version)(&object)).is_some()
        });
        if !is_unchanged || ignores_versions {
            self.push(&key, Delta::new(self.listed_as, object), first);
        }
        Ok(())
    }

    /// Returns the known object of the key if it has this version and the key is idle, that is,
    /// neither pending nor in a handler.
    fn unchanged_object(&self, key: &str, version: &str) -> Option<Arc<T>> {
        let unchanged = self.unchanged.as_ref()?;
        let is_idle = !self.items.contains_key(key) && !self.running.contains_key(key);
        self.known_object(key)
            .filter(|known| is_idle && !version.is_empty() && (unchanged.version)(known) == version)
    }

    pub(super) fn delete_unlisted(&mut self, relist: &Open) -> usize {
        let gone = |key: &&String| relist.covers(key) && !relist.listed.contains(*key);
        let running: Vec<_> = self.running.keys().filter(gone).cloned().collect();
        let pending: Vec<_> = self.items.keys().filter(gone).cloned().collect();
        let idle =
            |key: &&String| !self.running.contains_key(*key) && !self.items.contains_key(*key);
        let known: Vec<_> =
            self.known.iter().flat_map(BTreeMap::keys).filter(gone).filter(idle).cloned().collect();
        let deleted = running.len() + pending.len() + known.len();
        for key in running.into_iter().chain(pending).chain(known) {
            self.push_sweep(&key, relist.first, relist.removes_scope);
        }
        deleted
    }

    fn push_sweep(&mut self, key: &str, first: bool, scope_removed: bool) {
        match self.running.get_mut(key) {
            Some(running) => running.later.push(Later::Swept(scope_removed, first)),
            None => self.sweep(key, first, scope_removed),
        }
    }

    pub(super) fn sweep(&mut self, key: &str, first: bool, scope_removed: bool) {
        let obj = match self.items.get(key).and_then(|deltas| deltas.last()) {
            Some(newest) => newest.object.object().cloned(),
            None => self.known_object(key),
        };
        let tombstone = DeletedFinalStateUnknown { key: key.into(), obj, scope_removed };
        self.append(key, Delta::new(DeltaType::Deleted, tombstone));
        self.mark(key, first);
    }
}
