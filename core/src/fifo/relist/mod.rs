//! Relists: begin, offer pages as they come, commit (deletions happen here) or abandon (nothing is deleted).
//!
//! What a relist lists is stamped with its generation; while it is open adds and updates stamp too. At commit, what holds an older stamp is deleted. One relist is current: a later begin supersedes.

//!
//! | file | what lives there |
//! | --- | --- |
//! | `generations` | which relist is current, and what offers stamp with |
//! | `unchanged` | which objects need not be queued |
//! | `sweep` | the deletions of a commit |

mod generations;
mod sweep;
mod unchanged;

use std::ops::Deref;

use super::join::Join;
use super::{DeltaFifo, Known};
use crate::engine::release::OneByOne;
use crate::engine::slot::Version;
use crate::engine::sync::{Arc, GROUP, mutant};
use crate::error::{OfferError, RelistError, StoreError};
use crate::version::ResourceVersion;
use crate::{DeltaObject, DeltaType, Meta};
use generations::NO_GENERATION;
pub(super) use generations::Relists;
pub(super) use unchanged::Look;

/// A server says how many objects are to come: beyond this it is not believed, and the table grows as they do.
const MOST_EXPECTED: usize = 1 << 22;

/// What a committed relist did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Keys that were known or pending, and not listed: a deletion was queued for each.
    pub deleted: usize,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues `Replaced` for every object of `list`, in order, and a deletion for every other key that is known or pending
    /// (client-go `Replace`): a relist of one page, with the [commit](Relist::commit) that belongs to it. Pops proceed
    /// meanwhile. O(list + known).
    ///
    /// # Errors
    /// [`RelistError::Refused`]: what stood before the refused object is queued, nothing is deleted, and the queue is as
    /// populated as before. [`RelistError::Superseded`]: another relist began meanwhile. [`RelistError::Exhausted`]:
    /// nothing was done.
    pub fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<Committed, RelistError> {
        let mut list = OneByOne(list);
        let mut relist = self.begin_replace();
        relist.check_current()?;
        if self.is_of_another_history(version) {
            relist.ignore_versions();
        }
        relist.expect(list.len());
        self.join(&relist.join(true), list.take())?;
        relist.commit(version)
    }

    /// Begins a relist in pieces; it supersedes one that is still open. The first relist of a queue that nothing has
    /// populated claims the initial population. A queue can begin 2^32 - 1 relists in its life: of any later one each
    /// call fails with [`RelistError::Exhausted`], and the queue stays as it is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{DeltaFifo, Indexer, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let fifo = DeltaFifo::over(Indexer::builder(keys).build()?).build();
    /// let mut relist = fifo.begin_replace();
    /// relist.offer(vec![Arc::new("a".to_owned())])?;
    /// assert_eq!(fifo.try_pop().unwrap().key(), "a"); // no page waits for the last one
    /// relist.offer(vec![Arc::new("b".to_owned())])?;
    /// relist.commit("42")?;
    /// assert_eq!(fifo.resource_version().as_deref(), Some("42"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_replace(&self) -> Relist<'_, T, M> {
        let (generation, marks) = self.begin_relist().unwrap_or((NO_GENERATION, false));
        Relist { fifo: Owner::Borrowed(self), generation, marks, choices: Choices::default(), over: false }
    }

    /// The same, and the relist keeps the queue alive: for one that goes from thread to thread.
    pub fn begin_replace_owned(this: &Arc<Self>) -> Relist<'static, T, M> {
        let (generation, marks) = this.begin_relist().unwrap_or((NO_GENERATION, false));
        Relist { fifo: Owner::Shared(Arc::clone(this)), generation, marks, choices: Choices::default(), over: false }
    }

    /// Begins a relist: its generation, and whether its deltas are of the initial population. None: none is left.
    fn begin_relist(&self) -> Option<(u32, bool)> {
        self.relists.begin(
            || self.initial.claim(),
            || {
                mutant!(BeginPassesNoLock => return);
                // Through every shard's lock once: an older relist looks, with the lock held, whether it is current.
                self.core.table.shards().iter().for_each(|shard| drop(shard.write()));
            },
        )
    }

    /// Whether a list comes at a lower version than the last one, as after a restore of etcd. Version 0 names no state.
    fn is_of_another_history(&self, version: &str) -> bool {
        let (last, version) = (self.resource_version(), ResourceVersion::parse(version));
        let last = last.and_then(|last| ResourceVersion::parse(&last));
        version.is_some_and(|version| !version.is_zero() && last.is_some_and(|last| version < last))
    }

    /// The resource version of the last committed relist.
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        self.relists.last.lock().version.clone()
    }

    /// Queues `Added` for each object, as [`add`](Self::add) does, in one pass that brings their slots near ahead.
    /// Across keys the order is the batch's, but not against other offers made meanwhile.
    ///
    /// # Errors
    /// [`RelistError::Refused`]: those before the refused object are queued.
    pub fn add_batch(&self, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        self.offer_batch(DeltaType::Added, objects)
    }

    /// Queues `Updated` for each object: see [`add_batch`](Self::add_batch).
    ///
    /// # Errors
    /// As for [`add_batch`](Self::add_batch).
    pub fn update_batch(&self, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        self.offer_batch(DeltaType::Updated, objects)
    }

    fn offer_batch(&self, kind: DeltaType, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        if objects.is_empty() {
            return Ok(());
        }
        self.initial.touch();
        let join = Join { kind, generation: 0, marks: false, skip_unchanged: false, stops_at_refused: true };
        self.join(&join, objects).map(drop)
    }
}

/// An object that a relist could not take; the rest of its page is queued.
#[derive(Debug, thiserror::Error)]
#[error("object {index} of the page was refused, the others are queued: {source}")]
pub struct Refused {
    /// Its place in the page, from 0.
    pub index: usize,
    /// Why; says key and version where there are any.
    pub source: OfferError,
}

/// A relist's queue.
enum Owner<'f, T, M> {
    Borrowed(&'f DeltaFifo<T, M>),
    Shared(Arc<DeltaFifo<T, M>>),
}

impl<T, M> Deref for Owner<'_, T, M> {
    type Target = DeltaFifo<T, M>;

    fn deref(&self) -> &DeltaFifo<T, M> {
        match self {
            Self::Borrowed(fifo) => fifo,
            Self::Shared(fifo) => fifo,
        }
    }
}

/// What the caller knows of a list.
#[derive(Default)]
struct Choices {
    /// Whether nothing is deleted by it.
    keeps_unlisted: bool,
    /// Whether an object of an equal version counts as changed, too.
    ignores_versions: bool,
}

/// A relist in progress; made by [`DeltaFifo::begin_replace`]. Dropped, it is abandoned.
#[must_use = "a dropped relist is abandoned: offer its pages and commit it"]
pub struct Relist<'f, T: Send + Sync, M: Meta<T>> {
    fifo: Owner<'f, T, M>,
    generation: u32,
    /// Whether its deltas are of the initial population.
    marks: bool,
    choices: Choices,
    over: bool,
}

impl<T: Send + Sync, M: Meta<T>> Relist<'_, T, M> {
    fn check_current(&self) -> Result<(), RelistError> {
        match self.generation {
            NO_GENERATION => Err(RelistError::Exhausted),
            generation if self.fifo.relists.is_current(generation) => Ok(()),
            _ => Err(RelistError::Superseded),
        }
    }

    /// Makes room for about `objects` keys in all (a LIST's `remainingItemCount` tells). A hint.
    pub fn expect(&mut self, objects: usize) {
        self.fifo.core.table.reserve(objects.min(MOST_EXPECTED));
    }

    fn join(&self, stops_at_refused: bool) -> Join {
        let fifo = &*self.fifo;
        let skips = fifo.skip_unchanged && !fifo.notify_unchanged && !self.choices.ignores_versions;
        let skip_unchanged = skips && matches!(fifo.known, Known::Fused);
        Join {
            kind: fifo.replaced_as,
            generation: self.generation,
            marks: self.marks,
            skip_unchanged,
            stops_at_refused,
        }
    }

    /// Queues a page, in order; consumers get it at once. O(page).
    ///
    /// Objects that are refused come back with the reason, and the rest goes on. What the transformer refused is
    /// [kept](Self::keep): not deleted by this relist, the last good object stays. What has no key cannot be: if it is known
    /// under one, from when it had it, the commit deletes it, unless the caller knows that key and keeps it, or gives the
    /// relist up.
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: what stood before is queued, nothing more is.
    pub fn offer(&mut self, page: Vec<Arc<T>>) -> Result<Vec<Refused>, RelistError> {
        let mut page = OneByOne(page);
        self.check_current()?;
        self.fifo.join(&self.join(false), page.take())
    }

    /// Returns for each (key, version) whether its object is needed, and counts every key as listed. An object is not
    /// needed if it is known, idle and of an equal, non-empty version; a queue with
    /// [`notify_unchanged`](crate::DeltaFifoBuilder::notify_unchanged) needs them all. [Offer](Self::offer) those that
    /// are needed, or [keep](Self::keep) them if they cannot be had. So a relist need only decode what changed. O(keys).
    ///
    /// The version compared is the stored one. Once a transformer has changed a version, everything is needed.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    pub fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        self.check_current()?;
        let mut needed = Vec::with_capacity(listed.len());
        for group in listed.chunks(GROUP) {
            self.probe_group(group, &mut needed);
        }
        self.check_current()?;
        Ok(needed)
    }

    fn probe_group(&self, group: &[(&str, &str)], needed: &mut Vec<bool>) {
        let fifo = &*self.fifo;
        let table = &fifo.core.table;
        let hashes: Vec<u64> = group.iter().map(|(key, _)| table.hash(key.as_bytes())).collect();
        for &hash in &hashes {
            table.shard(hash).read().prefetch_bucket(hash);
        }
        for (&hash, (key, version)) in hashes.iter().zip(group) {
            let version = Version::of(version.as_bytes());
            fifo.list_key(self.generation, hash, key.as_bytes());
            let is_unchanged = || {
                let shard = table.shard(hash).read();
                let look = shard.find(hash, key.as_bytes()).map_or(Look::Needed, |slot| fifo.look(slot, version));
                drop(shard);
                fifo.is_unchanged(look, || version)
            };
            needed.push(fifo.notify_unchanged || self.choices.ignores_versions || !is_unchanged());
        }
    }

    /// Counts `key` as listed although its object cannot be had: it is not deleted, and the last good object stays.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    pub fn keep(&mut self, key: &str) -> Result<(), RelistError> {
        self.check_current()?;
        self.fifo.list_key(self.generation, self.fifo.core.table.hash(key.as_bytes()), key.as_bytes());
        Ok(())
    }

    /// Makes the relist take every object, also one of the version that is stored: the API server was restored from
    /// a backup, and equal versions no longer mean equal objects. [`DeltaFifo::replace`] does so by itself for a list
    /// at a lower version than the last one.
    pub fn ignore_versions(&mut self) {
        self.choices.ignores_versions = true;
    }

    /// Makes the commit delete nothing: an object is listed whose key cannot be had, so any key that is not listed may be its own.
    pub fn keep_unlisted(&mut self) {
        self.choices.keeps_unlisted = true;
    }

    /// Queues `Deleted` as [`DeltaFifo::delete`] does: a list that is streamed can say that something is gone again. It is of
    /// this relist: it does not make the queue populated, and a first one is synced when its handler has ended, too. O(1).
    ///
    /// What the transformer refuses is deleted all the same: by a [`DeletedFinalStateUnknown`] with the newest object that is
    /// pending or known.
    ///
    /// # Errors
    /// [`StoreError::Relist`]: a newer relist has begun, which may list the object; nothing was queued.
    /// [`StoreError::Refused`]: what the transformer said; the deletion is queued. [`StoreError::Key`]: nothing was queued.
    ///
    /// [`DeletedFinalStateUnknown`]: crate::DeletedFinalStateUnknown
    pub fn delete(&mut self, object: impl Into<DeltaObject<T>>) -> Result<(), StoreError> {
        self.check_current()?;
        let marks = mutant!(DeletionsAreNotMarked => false; self.marks);
        self.fifo.delete_in(self.generation, marks, object.into())
    }

    /// Ends the relist: queues a deletion for every key that is known or pending and was not listed, nor written since
    /// the begin, unless [all are kept](Self::keep_unlisted). In a queue that [tracks what is applied](crate::DeltaFifoBuilder::track_applied) it is a
    /// [`bookmark`](DeltaFifo::bookmark), too, if `version` is a decimal number; of any other version nobody can be told
    /// that it is applied. Unlike a bookmark, it takes back a greater [applied version](DeltaFifo::applied_version).
    /// O(known).
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: nothing is deleted, or nothing more when the newer relist began meanwhile.
    pub fn commit(mut self, version: &str) -> Result<Committed, RelistError> {
        self.check_current()?;
        let fifo = &*self.fifo;
        let mut deleted = 0;
        if !self.choices.keeps_unlisted {
            deleted += fifo.sweep(self.generation, self.marks);
            deleted += fifo.sweep_elsewhere(self.generation, self.marks);
        }
        // Not before: should the store elsewhere panic, the relist is abandoned.
        self.over = true;
        mutant!(CommitIsMarkedFirst => fifo.committed(fifo.mark_commit(version)));
        let mut complete = None;
        self.end(|last| {
            *last = Some(version.to_owned());
            // Within the step, so that markers come in the order of the commits: of two, the later one's version is the
            // truth, also when it is the lower.
            mutant!(CommitMarksLate => return fifo.initial.commit());
            complete = fifo.mark_commit(version);
            fifo.initial.commit()
        })?;
        mutant!(CommitMarksLate => complete = fifo.mark_commit(version));
        fifo.committed(complete);
        Ok(Committed { deleted })
    }

    /// Ends it, if it is still the current one. `step` belongs to that, and says whether the queue is synced by it.
    fn end(&self, step: impl FnOnce(&mut Option<String>) -> bool) -> Result<(), RelistError> {
        let synced = self.fifo.relists.end(self.generation, step);
        self.fifo.forget_listed(self.generation);
        if synced.ok_or(RelistError::Superseded)? {
            mutant!(AbandonTellsNobody => return Ok(()));
            self.fifo.initial.announce();
        }
        Ok(())
    }

    /// Gives the relist up: what was offered stays queued, nothing is deleted, and a first relist leaves the queue as
    /// unpopulated as it was. The same as a drop.
    pub fn abandon(self) {}
}

impl<T: Send + Sync, M: Meta<T>> Drop for Relist<'_, T, M> {
    fn drop(&mut self) {
        if !self.over {
            // Superseded: then there is nothing to end.
            let _ = self.end(|_| self.fifo.initial.abandon());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Indexer, KeyFunc, NoMeta};

    #[test]
    fn relist_without_a_generation_fails_and_leaves_the_queue_as_it_is() {
        let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
        let fifo = DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build();
        let name = |name: &str| Arc::new(name.to_owned());
        fifo.relists.last.lock().generation = u32::MAX - 1;
        let mut last = fifo.begin_replace();
        let mut exhausted = fifo.begin_replace();
        let is_exhausted = |error: Option<RelistError>| matches!(error, Some(RelistError::Exhausted));
        assert!(is_exhausted(exhausted.offer(vec![name("b")]).err()));
        assert!(is_exhausted(exhausted.probe(&[("b", "1")]).err()));
        assert!(is_exhausted(exhausted.keep("b").err()));
        assert!(matches!(exhausted.delete(name("b")), Err(StoreError::Relist(RelistError::Exhausted))));
        assert!(is_exhausted(exhausted.commit("2").err()));
        assert!(is_exhausted(fifo.replace(vec![name("b")], "2").err()));
        last.offer(vec![name("a")]).unwrap();
        last.commit("1").unwrap();
        assert_eq!((fifo.list_keys(), fifo.resource_version().as_deref()), (vec!["a".to_owned()], Some("1")));
        assert!(is_exhausted(fifo.replace(vec![], "2").err()));
        fifo.update(name("a")).unwrap();
        assert_eq!(fifo.pop().unwrap().deltas().len(), 2, "offers and pops go on");
    }
}
