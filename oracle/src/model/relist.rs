//! Relists of the model: one is current, a later begin supersedes it, and what was neither listed
//! by it nor written while it was open is deleted when it is committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltafifo::{
    Committed, DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, KeyError, OfferError,
    RelistError, StoreError,
};

use super::{Initial, Later, Model};

/// The treatment of listed objects that are known, idle and of an equal version.
pub struct Unchanged<T> {
    /// Returns an object's version.
    pub version: fn(&T) -> &str,
    /// Whether a relist skips them.
    pub skip: bool,
    /// Whether every object is listed anew, so that a probe needs all of them and none is left out.
    pub notify: bool,
}

/// The relist that is current.
pub(super) struct Open {
    number: u32,
    /// What it listed, and what was written since it began.
    listed: BTreeSet<String>,
}

impl<T> Model<T> {
    /// Queues what is listed, and a deletion for everything else.
    ///
    /// # Errors
    /// An object was refused: those before it are queued, and the queue is as populated as before.
    pub fn replace(&mut self, list: Vec<Arc<T>>, _version: &str) -> Result<Committed, RelistError> {
        let relist = self.begin_replace();
        for (index, object) in list.into_iter().enumerate() {
            if let Err(source) = self.list_object(object) {
                self.abandon(relist);
                return Err(RelistError::Refused { index, source });
            }
        }
        self.commit(relist)
    }

    /// Begins a relist in pieces; its number.
    pub fn begin_replace(&mut self) -> u32 {
        if self.initial == Initial::Unpopulated {
            self.initial = Initial::Claimed;
        }
        self.relists += 1;
        self.open = Some(Open { number: self.relists, listed: BTreeSet::new() });
        self.relists
    }

    fn check_current(&self, relist: u32) -> Result<(), RelistError> {
        let is_current = self.open.as_ref().is_some_and(|open| open.number == relist);
        if is_current { Ok(()) } else { Err(RelistError::Superseded) }
    }

    /// Offers a page. Returns the positions of the refused objects.
    ///
    /// # Errors
    /// The relist was superseded.
    pub fn offer_page(
        &mut self,
        relist: u32,
        page: Vec<Arc<T>>,
    ) -> Result<Vec<usize>, RelistError> {
        self.check_current(relist)?;
        Ok(page
            .into_iter()
            .enumerate()
            .filter_map(|(at, object)| self.list_object(object).err().map(|_| at))
            .collect())
    }

    /// Returns for each (key, version) whether its object is needed. Counts all of them as listed.
    ///
    /// # Errors
    /// The relist was superseded.
    pub fn probe(
        &mut self,
        relist: u32,
        listed: &[(&str, &str)],
    ) -> Result<Vec<bool>, RelistError> {
        self.check_current(relist)?;
        Ok(listed.iter().map(|(key, version)| self.is_needed(key, version)).collect())
    }

    fn is_needed(&mut self, key: &str, version: &str) -> bool {
        self.note_listed(key);
        let notify = self.unchanged.as_ref().is_some_and(|unchanged| unchanged.notify);
        notify || self.unchanged_object(key, version).is_none()
    }

    /// Counts a key as listed.
    ///
    /// # Errors
    /// The relist was superseded.
    pub fn keep(&mut self, relist: u32, key: &str) -> Result<(), RelistError> {
        self.check_current(relist)?;
        self.note_listed(key);
        Ok(())
    }

    /// Deletes a key within a relist, even if the transformer refuses its object.
    ///
    /// # Errors
    /// The relist was superseded; no key; the transformer failed.
    pub fn delete_in(
        &mut self,
        relist: u32,
        object: impl Into<DeltaObject<T>>,
    ) -> Result<(), StoreError> {
        self.check_current(relist)?;
        let (object, first) = (object.into(), self.lists_first());
        let key = self.key_of(&object)?;
        if !self.exists(&key) {
            return Ok(());
        }
        match self.transform_deleted(&key, object) {
            Ok(object) => self.push_deletion(&key, object, first),
            Err(refused) => {
                self.push_sweep(&key, first);
                return Err(refused.into());
            }
        }
        Ok(())
    }

    /// Commits the relist, which deletes the unlisted keys.
    ///
    /// # Errors
    /// The relist was superseded.
    pub fn commit(&mut self, relist: u32) -> Result<Committed, RelistError> {
        self.check_current(relist)?;
        let Some(Open { listed, .. }) = self.open.take() else {
            return Err(RelistError::Superseded);
        };
        let first = self.lists_first();
        let deleted = self.delete_unlisted(&listed, first);
        if first {
            self.initial = Initial::Draining;
        }
        self.finish_initial();
        Ok(Committed { deleted })
    }

    /// Gives a relist up; nothing when it was superseded.
    pub fn abandon(&mut self, relist: u32) {
        if self.check_current(relist).is_err() {
            return;
        }
        self.open = None;
        match self.initial {
            Initial::Claimed => self.initial = Initial::Unpopulated,
            Initial::Touched => self.initial = Initial::Synced,
            _ => {}
        }
    }

    /// Whether what the open relist lists is the initial population: only then is the queue in
    /// these phases.
    fn lists_first(&self) -> bool {
        matches!(self.initial, Initial::Claimed | Initial::Touched)
    }

    /// A key was listed, or written while a relist is open: that relist does not delete it.
    pub(super) fn note_listed(&mut self, key: &str) {
        if let Some(open) = &mut self.open {
            open.listed.insert(key.to_owned());
        }
    }

    fn list_object(&mut self, object: Arc<T>) -> Result<(), OfferError> {
        let key = (self.key)(&object).ok_or(KeyError::NoName)?;
        // Also when the transformer refuses it: the last good object stays.
        self.note_listed(&key);
        let object = self.transform(&key, object)?;
        let skips = self.unchanged.as_ref().filter(|unchanged| unchanged.skip && !unchanged.notify);
        if skips.is_none_or(|unchanged| {
            self.unchanged_object(&key, (unchanged.version)(&object)).is_none()
        }) {
            self.push(&key, Delta::new(self.listed_as, object), self.lists_first());
        }
        Ok(())
    }

    /// Returns the known object of a key that is idle and of this version.
    fn unchanged_object(&self, key: &str, version: &str) -> Option<Arc<T>> {
        let unchanged = self.unchanged.as_ref()?;
        let is_idle = !self.items.contains_key(key) && !self.running.contains_key(key);
        self.known_object(key)
            .filter(|known| is_idle && !version.is_empty() && (unchanged.version)(known) == version)
    }

    fn delete_unlisted(&mut self, listed: &BTreeSet<String>, first: bool) -> usize {
        let gone = |key: &&String| !listed.contains(*key);
        let running: Vec<_> = self.running.keys().filter(gone).cloned().collect();
        let pending: Vec<_> = self.items.keys().filter(gone).cloned().collect();
        let idle =
            |key: &&String| !self.running.contains_key(*key) && !self.items.contains_key(*key);
        let known: Vec<_> =
            self.known.iter().flat_map(BTreeMap::keys).filter(gone).filter(idle).cloned().collect();
        let deleted = running.len() + pending.len() + known.len();
        for key in running.into_iter().chain(pending).chain(known) {
            self.push_sweep(&key, first);
        }
        deleted
    }

    fn push_sweep(&mut self, key: &str, first: bool) {
        match self.running.get_mut(key) {
            Some(running) => running.later.push(Later::Swept(first)),
            None => self.sweep(key, first),
        }
    }

    pub(super) fn sweep(&mut self, key: &str, first: bool) {
        let obj = match self.items.get(key).and_then(|deltas| deltas.last()) {
            Some(newest) => newest.object.object().cloned(),
            None => self.known_object(key),
        };
        self.append(
            key,
            Delta::new(DeltaType::Deleted, DeletedFinalStateUnknown { key: key.into(), obj }),
        );
        self.mark(key, first);
    }
}
