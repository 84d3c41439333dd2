//! Relists. The caller begins a relist, offers pages as they come, and then commits the relist
//! (which deletes the unlisted keys) or abandons it (which deletes nothing).
//!
//! A relist stamps the slots of listed keys with its generation; while it is open, offers stamp,
//! too. The commit deletes the keys with older stamps. At most one relist of the whole queue, or
//! one of each scope, is current: a newer relist supersedes it. `span` has the generation and the
//! keys of a relist, and the removal of a scope; `sweep` has the deletions of a commit.

#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects;
mod span;
mod sweep;

use std::ops::Deref;

use super::generations::{BeginError, Last, NO_GENERATION};
use super::join::{Join, Refused};
use super::unchanged::ListedCheck;
use super::{DeltaFifo, KnownPlace};
use crate::engine::release::{OneByOne, Rest, UserCode};
use crate::engine::slot::{Sweep, Version};
use crate::engine::sync::{Arc, GROUP, mutant};
use crate::error::{RelistError, StoreError};
use crate::key::{KeyBuf, as_str};
use crate::scope::{ScopeId, Within};
use crate::version::ResourceVersion;
use crate::{DeltaObject, Meta};
use span::{RelistSpan, Removal};

/// The largest number of objects for which room is made in advance, even if the server says that
/// the list has more. For further objects the table grows as they arrive.
const MOST_EXPECTED: usize = 1 << 22;

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The number of keys that were known or pending, and not listed: a deletion was queued for
    /// each.
    pub deleted: usize,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues `Replaced` for every object of `list`, in order, and a deletion for every other key
    /// that is known or pending (client-go `Replace`): a relist of one page, with the
    /// [commit](Relist::commit) that belongs to it. Pops proceed while it runs. O(list + known).
    ///
    /// # Errors
    /// [`RelistError::Refused`]: the objects before the refused one are queued, nothing is
    /// deleted, and an unpopulated queue stays unpopulated. [`RelistError::Superseded`]: another
    /// relist began before this one ended. [`RelistError::Exhausted`], [`RelistError::HasScopes`]:
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

    /// Begins a relist in pieces. It supersedes one that is still open. The first relist of an
    /// unpopulated queue claims the initial population.
    ///
    /// If the queue has begun 2^32 - 1 relists before, the fallible methods of the new relist fail
    /// with [`RelistError::Exhausted`]. If the queue has [scopes](Self::add_scope), they fail with
    /// [`RelistError::HasScopes`]. Such a relist changes nothing.
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
        Relist::borrowed(self, self.begin_relist())
    }

    /// Begins a relist that keeps the queue alive, so that the relist can move from thread to
    /// thread.
    #[doc(hidden)]
    pub fn begin_replace_owned(this: &Arc<Self>) -> Relist<'static, T, M> {
        Relist::shared(Arc::clone(this), this.begin_relist())
    }

    /// Begins a relist of a scope. Fails if the scope does not belong to the queue, or if no
    /// generation is left.
    pub(super) fn begin_relist_in(&self, scope: &ScopeId) -> Result<RelistSpan, BeginError> {
        let mut history = None;
        let ready = |superseded, generation| {
            history = self.queue.is_tracked().then(|| self.core.applied.history());
            self.note_begin(superseded, generation, false);
        };
        let begun = self.relists.begin_in(scope, || self.pass_every_shard(), ready);
        begun.map(|(generation, marks, within)| RelistSpan {
            began: history,
            ..RelistSpan::new(generation, marks, Some(within))
        })
    }

    /// Removes a scope from the queue, and begins the relist that deletes its keys.
    pub(super) fn begin_removal(&self, scope: &ScopeId) -> Result<Removal<'_, T, M>, RelistError> {
        let ready = |superseded, generation| {
            self.core.applied.remove_part();
            self.note_begin(superseded, generation, true);
        };
        let begun = self.relists.remove(scope, || self.pass_every_shard(), ready);
        let (generation, within, completes) = begun.map_err(|error| error.error())?;
        let sweep = Sweep::ScopeRemoved;
        let span = RelistSpan { sweep, ..RelistSpan::new(generation, false, Some(within)) };
        Ok(Removal { fifo: self, span, completes })
    }

    fn begin_relist(&self) -> Result<RelistSpan, BeginError> {
        let ready = |superseded, generation| self.note_begin(superseded, generation, false);
        let begun =
            self.relists.begin(|| self.life.initial.claim(), || self.pass_every_shard(), ready);
        begun.map(|(generation, marks)| RelistSpan::new(generation, marks, None))
    }

    /// Locks and unlocks every shard once. An older relist checks under a shard's lock whether it
    /// is current, so once this returns, no step that passed the check before the new relist began
    /// is still running.
    fn pass_every_shard(&self) {
        mutant!(BeginPassesNoLock => return);
        self.core.table.shards().iter().for_each(|shard| drop(shard.write()));
    }

    /// Returns whether a list comes at a lower version than the last one, as after a restore of
    /// etcd. Version 0 names no state.
    fn is_of_another_history(&self, version: &str) -> bool {
        let (last, version) = (self.resource_version(), ResourceVersion::parse(version));
        let last = last.and_then(|last| ResourceVersion::parse(&last));
        version.is_some_and(|version| !version.is_zero() && last.is_some_and(|last| version < last))
    }

    /// Returns the resource version of the last committed relist, or `None` if there was none. In
    /// a queue with [scopes](Self::add_scope) this is the lowest version of the scopes' last
    /// relists. It is `None` while a scope has no list, or one whose version is not a decimal
    /// number; scopes that are [waived](Self::waive_scope) are left out.
    #[must_use]
    pub fn resource_version(&self) -> Option<String> {
        let last = self.relists.last.lock();
        if last.scopes.is_empty() { last.version.clone() } else { last.scopes.least_version() }
    }
}

/// The reference of a relist to its queue, which is borrowed or shared.
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

/// The choices of the caller for one list.
#[derive(Default)]
struct Choices {
    /// Whether the commit deletes nothing.
    keeps_unlisted: bool,
    /// Whether an object of an equal version counts as changed.
    ignores_versions: bool,
}

/// A relist in progress, made by [`DeltaFifo::begin_replace`]. A relist that is dropped is
/// abandoned: its offers and [deletions](Self::delete) stay queued, no key is deleted for being
/// unlisted, and the relist does not count as the first one.
#[must_use = "a dropped relist is abandoned: offer its pages and commit it"]
pub struct Relist<'f, T: Send + Sync, M: Meta<T>> {
    fifo: Owner<'f, T, M>,
    span: RelistSpan,
    /// The reason why the relist was not begun, if it was not.
    begin_error: Option<BeginError>,
    choices: Choices,
    over: bool,
}

impl<T: Send + Sync, M: Meta<T>> Relist<'static, T, M> {
    pub(super) fn shared(
        fifo: Arc<DeltaFifo<T, M>>,
        begun: Result<RelistSpan, BeginError>,
    ) -> Self {
        Self::new(Owner::Shared(fifo), begun)
    }
}

impl<'f, T: Send + Sync, M: Meta<T>> Relist<'f, T, M> {
    pub(super) fn borrowed(
        fifo: &'f DeltaFifo<T, M>,
        begun: Result<RelistSpan, BeginError>,
    ) -> Self {
        Self::new(Owner::Borrowed(fifo), begun)
    }

    fn new(fifo: Owner<'f, T, M>, begun: Result<RelistSpan, BeginError>) -> Self {
        let not_begun = |error| (RelistSpan::new(NO_GENERATION, false, None), Some(error));
        let (span, begin_error) = begun.map_or_else(not_begun, |span| (span, None));
        Self { fifo, span, begin_error, choices: Choices::default(), over: false }
    }
}

impl<T: Send + Sync, M: Meta<T>> Relist<'_, T, M> {
    fn check_current(&self) -> Result<(), RelistError> {
        if let Some(begin_error) = &self.begin_error {
            return Err(begin_error.error());
        }
        let RelistSpan { generation, within, .. } = &self.span;
        let is_current = self.fifo.relists.is_current(*generation, within.as_ref());
        if is_current { Ok(()) } else { Err(RelistError::Superseded) }
    }

    /// Fails for a key that does not belong to the scope of this relist.
    fn check_scope(&self, key: &str) -> Result<(), RelistError> {
        let Some(within) = &self.span.within else { return Ok(()) };
        Ok(within.check(key)?)
    }

    /// Makes room for about `objects` keys in all, as a hint (see `remainingItemCount` of a LIST).
    pub fn expect(&mut self, objects: usize) {
        self.fifo.core.table.reserve(objects.min(MOST_EXPECTED));
    }

    fn join(&self, stops_at_refused: bool) -> Join<'_> {
        let fifo = &*self.fifo;
        let skips = fifo.skip_unchanged && !fifo.notify_unchanged && !self.choices.ignores_versions;
        let skip_unchanged = skips && matches!(fifo.known, KnownPlace::Fused);
        Join {
            kind: fifo.replaced_as,
            generation: self.span.generation,
            marks: self.span.marks,
            within: self.span.within.as_ref(),
            skip_unchanged,
            stops_at_refused,
        }
    }

    /// Queues a page, in order. Consumers get its objects at once. O(page).
    ///
    /// Returns the refused objects with the reasons; the rest of the page is queued. An object that
    /// the transformer refuses is [kept](Self::keep): this relist does not delete it, and the last
    /// good object stays. An object without a key cannot be kept: if it is known under an earlier
    /// key, the commit deletes that key, unless the caller knows the key and keeps it, or abandons
    /// the relist.
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: a newer relist has begun. Objects that were queued before that
    /// stay queued, and the rest of the page is not queued. [`RelistError::Exhausted`],
    /// [`RelistError::HasScopes`], [`RelistError::UnknownScope`]: the relist could not begin, and
    /// nothing was queued.
    pub fn offer(&mut self, page: Vec<Arc<T>>) -> Result<Vec<Refused>, RelistError> {
        let mut page = OneByOne(page);
        self.check_current()?;
        if let Some(within) = &self.span.within {
            return self.offer_within(within, page.take());
        }
        self.fifo.join(&self.join(false), page.take())
    }

    /// Queues the objects of a page whose keys belong to the scope, and refuses the others. Their
    /// keys are computed here, and again by the join, so that relists of the whole queue need no
    /// check.
    fn offer_within(
        &self,
        within: &Within,
        page: Vec<Arc<T>>,
    ) -> Result<Vec<Refused>, RelistError> {
        let mut rest = Rest(page.into_iter().enumerate());
        let (mut inside, mut places) = (OneByOne(Vec::new()), Vec::new());
        let mut refused = OneByOne(Vec::new());
        for (index, object) in rest.0.by_ref() {
            let (object, mut key) = (UserCode::new(object), KeyBuf::new());
            // The join refuses objects without a key.
            let has_key = self.fifo.core.keys.write(&object, &mut key).is_ok();
            if has_key && let Err(outside) = within.check(as_str(&key)) {
                refused.push(Refused { index, source: outside.into() });
                continue;
            }
            inside.push(object.into_inner());
            places.push(index);
        }
        for joined in self.fifo.join(&self.join(false), inside.take())? {
            refused.push(Refused { index: places[joined.index], ..joined });
        }
        refused.sort_unstable_by_key(|refused| refused.index);
        Ok(refused.take())
    }

    /// Returns for each (key, version) whether its object is needed, and records every key as
    /// listed. An object is not needed if it is known, idle and of an equal, non-empty version; a
    /// queue with [`notify_unchanged`](crate::DeltaFifoBuilder::notify_unchanged) needs them all.
    /// [Offer](Self::offer) the needed objects, or [keep](Self::keep) the keys of needed objects
    /// that are not available. So a relist decodes changed objects only. O(keys).
    ///
    /// The version is compared with the stored one. Every object is needed once a transformer has
    /// changed a version, after [`ignore_versions`](Self::ignore_versions), and in a queue whose
    /// known objects are in an external store.
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: a newer relist has begun. [`RelistError::OutOfScope`]: a key
    /// does not belong to the scope of this relist, and no key is recorded.
    /// [`RelistError::UnknownScope`]: the scope was removed before the relist began.
    pub fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        self.check_current()?;
        listed.iter().try_for_each(|(key, _)| self.check_scope(key))?;
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
            fifo.list_key(self.span.generation, hash, key.as_bytes());
            let is_unchanged = || {
                let shard = table.shard(hash).read();
                let check = shard
                    .find(hash, key.as_bytes())
                    .map_or(ListedCheck::Needed, |slot| fifo.check_listed(slot, version));
                let key = key.as_bytes();
                mutant!(ProbeReleasesUnderLock => return fifo.is_unchanged(check, hash, key, || version));
                drop(shard);
                fifo.is_unchanged(check, hash, key, || version)
            };
            needed.push(fifo.notify_unchanged || self.choices.ignores_versions || !is_unchanged());
        }
    }

    /// Records `key` as listed although its object is not available: the key is not deleted, and
    /// its known object stays.
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: a newer relist has begun. [`RelistError::OutOfScope`]: the key
    /// does not belong to the scope of this relist. [`RelistError::UnknownScope`]: the scope was
    /// removed before the relist began.
    pub fn keep(&mut self, key: &str) -> Result<(), RelistError> {
        self.check_current()?;
        self.check_scope(key)?;
        let hash = self.fifo.core.table.hash(key.as_bytes());
        self.fifo.list_key(self.span.generation, hash, key.as_bytes());
        Ok(())
    }

    /// Returns the number of the history in which this relist of a scope began, for the informer,
    /// which lists the scopes of former histories again. `None` if the queue does not track applied
    /// versions.
    #[doc(hidden)]
    #[must_use]
    pub fn history(&self) -> Option<u64> {
        self.span.began
    }

    /// Makes the relist take every object, even one of the stored version. Use it for a list after
    /// the API server was restored from a backup, when equal versions no longer mean equal objects.
    /// [`DeltaFifo::replace`] calls this for a list at a lower version than the last one.
    pub fn ignore_versions(&mut self) {
        self.choices.ignores_versions = true;
    }

    /// Makes the commit delete nothing. Use it for a list with an object whose key cannot be
    /// determined: that object may have any of the keys that are not listed.
    pub fn keep_unlisted(&mut self) {
        self.choices.keeps_unlisted = true;
    }

    /// Queues `Deleted` as [`DeltaFifo::delete`] does. Use it for a streamed list, which can
    /// contain the deletion of an object that it has already listed. The deletion is part of this
    /// relist: it does not populate the queue, and the initial population waits for its handler.
    /// O(1).
    ///
    /// An object that the transformer refuses is still deleted, by a [`DeletedFinalStateUnknown`]
    /// with the newest object that is pending or known.
    ///
    /// # Errors
    /// [`StoreError::Relist`]: a newer relist has begun, which may list the object; the key does
    /// not belong to the scope of this relist; or the relist could not begin. Nothing was queued.
    /// [`StoreError::Refused`]: the object has no key, and nothing was queued; or the transformer
    /// failed, and the deletion is queued.
    ///
    /// [`DeletedFinalStateUnknown`]: crate::DeletedFinalStateUnknown
    pub fn delete(&mut self, object: impl Into<DeltaObject<T>>) -> Result<(), StoreError> {
        self.check_current()?;
        let RelistSpan { generation, marks, within, .. } = &self.span;
        mutant!(DeletionsAreNotMarked => let marks = &false);
        self.fifo.delete_in(*generation, *marks, within.as_ref(), object.into())
    }

    /// Ends the relist: queues a deletion for every key that is known or pending, and was neither
    /// listed nor written since the relist began, unless [all are kept](Self::keep_unlisted). In a
    /// queue that [tracks the applied version](crate::DeltaFifoBuilder::track_applied) the commit
    /// is also a [`bookmark`](DeltaFifo::bookmark), if `version` is a decimal number. Unlike a
    /// bookmark, it can also lower the [applied version](crate::IndexReader::applied_version).
    /// O(known).
    ///
    /// # Errors
    /// [`RelistError::Superseded`]: nothing is deleted, or nothing more after the newer relist
    /// began. [`RelistError::Exhausted`], [`RelistError::HasScopes`],
    /// [`RelistError::UnknownScope`]: the relist could not begin, and nothing is deleted.
    pub fn commit(mut self, version: &str) -> Result<Committed, RelistError> {
        self.check_current()?;
        let fifo = &*self.fifo;
        let mut deleted = 0;
        if !self.choices.keeps_unlisted {
            deleted += fifo.sweep(&self.span);
        }
        // Not earlier: if the external store panics, the relist is abandoned.
        self.over = true;
        mutant!(ScopeIsMarkedFirst => fifo.mark_scope_of(&self.span, version));
        mutant!(CommitIsMarkedFirst => fifo.committed(fifo.mark_commit(version)));
        let mut complete = None;
        self.end(|last, scope| {
            if let Some(scope) = scope {
                let applied = &fifo.core.applied;
                let completes = last.scopes.listed(scope, version, self.span.marks, applied);
                // A version that is not a number is never applied, as for the whole queue. Such a
                // list also ends a waiver, and so changes the lowest version.
                complete = fifo
                    .mark_scope(&mut last.scopes, scope, version, self.span.began)
                    .unwrap_or_else(|_| fifo.mark_least(&last.scopes));
                return completes && fifo.life.initial.commit();
            }
            last.version = Some(version.to_owned());
            // Within the step, so that markers are queued in the order of the commits: the version
            // of the later one of two commits is the valid one, even if it is lower.
            mutant!(CommitMarksLate => return fifo.life.initial.commit());
            complete = fifo.mark_commit(version);
            fifo.life.initial.commit()
        })?;
        mutant!(CommitMarksLate => complete = fifo.mark_commit(version));
        fifo.committed(complete);
        Ok(Committed { deleted })
    }

    /// Ends the relist if it is still current, and then calls `step` under the same lock. If `step`
    /// returns true, the queue has become synced, and the callers that wait for this are woken.
    /// Fails if the relist is not current.
    fn end(
        &self,
        step: impl FnOnce(&mut Last, Option<&ScopeId>) -> bool,
    ) -> Result<(), RelistError> {
        let RelistSpan { generation, within, .. } = &self.span;
        let scope = within.as_ref().map(|within| &within.scope);
        let step = |last: &mut Last| step(last, scope);
        let synced = self.fifo.relists.end(*generation, within.as_ref(), step);
        self.fifo.forget_listed(*generation);
        if synced.ok_or(RelistError::Superseded)? {
            mutant!(AbandonWakesNoWaiter => return Ok(()));
            self.fifo.life.initial.announce();
        }
        Ok(())
    }
}

impl<T: Send + Sync, M: Meta<T>> Drop for Relist<'_, T, M> {
    fn drop(&mut self) {
        if !self.over && self.begin_error.is_none() {
            // A superseded relist has nothing to end. The first list of a scope is still awaited.
            let _ = self.end(|_, scope| scope.is_none() && self.fifo.life.initial.abandon());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Indexer, KeyFunc, NoMeta};

    #[test]
    fn relist_without_a_generation_fails_and_does_not_change_the_queue() {
        let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
        let fifo = DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build();
        let name = |name: &str| Arc::new(name.to_owned());
        fifo.relists.last.lock().generation = u32::MAX - 1;
        let mut last = fifo.begin_replace();
        let mut exhausted = fifo.begin_replace();
        let is_exhausted =
            |error: Option<RelistError>| matches!(error, Some(RelistError::Exhausted));
        assert!(is_exhausted(exhausted.offer(vec![name("b")]).err()));
        assert!(is_exhausted(exhausted.probe(&[("b", "1")]).err()));
        assert!(is_exhausted(exhausted.keep("b").err()));
        assert!(matches!(
            exhausted.delete(name("b")),
            Err(StoreError::Relist(RelistError::Exhausted))
        ));
        assert!(is_exhausted(exhausted.commit("2").err()));
        assert!(is_exhausted(fifo.replace(vec![name("b")], "2").err()));
        last.offer(vec![name("a")]).unwrap();
        last.commit("1").unwrap();
        assert_eq!(
            (fifo.list_keys(), fifo.resource_version().as_deref()),
            (vec!["a".to_owned()], Some("1"))
        );
        assert!(is_exhausted(fifo.replace(vec![], "2").err()));
        fifo.update(name("a")).unwrap();
        assert_eq!(fifo.pop().unwrap().deltas().len(), 2, "offers and pops continue");
    }
}
