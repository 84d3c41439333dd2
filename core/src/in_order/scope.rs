//! Scopes of the in-order queue: each has relists of its own.

use super::InOrderFifo;
use super::event::{LogEntry, ReplacedAll};
use crate::engine::release::OneByOne;
use crate::engine::sync::{Arc, mutant};
use crate::error::{RelistError, ScopeError};
use crate::scope::{Candidate, KeyScope, ScopeId, Within};
use crate::{Meta, Refused};

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// Adds a scope, which is then relisted separately with [`replace_in`](Self::replace_in). There
    /// are two differences from [`DeltaFifo::add_scope`](crate::DeltaFifo::add_scope):
    ///
    /// - Relists are queued one after another, so that none is superseded.
    /// - A predicate is called for stored keys only, and not for queued ones. If a key that is
    ///   stored later is in two scopes, it belongs to the older scope: see [`KeyScope`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{InOrderFifo, Indexer, KeyFunc, KeyScope, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |key: &String| Ok(key.clone()));
    /// let fifo = InOrderFifo::over(Indexer::builder(keys).build()?).build();
    /// let blue = fifo.add_scope(KeyScope::keys("blue", |key| key.starts_with("blue/")))?;
    /// let green = fifo.add_scope(KeyScope::keys("green", |key| key.starts_with("green/")))?;
    /// let objects = |keys: &[&str]| keys.iter().map(|key| Arc::new((*key).to_owned())).collect();
    /// fifo.replace_in(&green, objects(&["green/a"]), "1")?;
    /// fifo.replace_in(&blue, objects(&["blue/a", "blue/b"]), "1")?;
    /// fifo.replace_in(&blue, objects(&["blue/b"]), "2")?;
    /// while let Some(mut turn) = fifo.try_pop() {
    ///     turn.apply(|_, _| ())?;
    /// }
    /// let mut stored = fifo.store().list_keys();
    /// stored.sort();
    /// assert_eq!(stored, ["blue/b", "green/a"]);
    /// assert!(fifo.has_synced());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`DeltaFifo::add_scope`](crate::DeltaFifo::add_scope), except that an open relist is
    /// not an error.
    ///
    /// # Panics
    /// If the predicate of a scope panics.
    pub fn add_scope(&self, scope: KeyScope) -> Result<ScopeId, ScopeError> {
        let mut candidate = Candidate::new(scope, &self.core.keys)?;
        loop {
            let mut scopes = self.scopes.lock();
            let Some(rivals) = candidate.unchecked(&scopes) else {
                let history = self.core.applied.history();
                scopes.add(&candidate.scope, history, || self.life.initial.claim())?;
                break;
            };
            drop(scopes);
            // Dropped before the key is returned: what a function returns leaks if a destructor of
            // its other values panics.
            let keys = self.core.known().map(|(key, object)| {
                drop(object);
                key
            });
            candidate.check(rivals, keys)?;
        }
        Ok(candidate.scope)
    }

    /// Queues a relist of a scope as one event: `list` has all objects of the scope, as of
    /// `version`. See [`replace`](Self::replace).
    ///
    /// # Errors
    /// [`RelistError::RefusedWhole`]: an object has no key or one outside of the scope, or the
    /// transformer failed for it. [`RelistError::UnknownScope`]: the scope was removed, or is
    /// another queue's. Nothing was queued.
    pub fn replace_in(
        &self,
        scope: &ScopeId,
        list: Vec<Arc<T>>,
        version: &str,
    ) -> Result<(), RelistError> {
        let mut list = OneByOne(list);
        let within = self.within(scope)?;
        let all = self.all_or_none(list.take(), Some(&within), version)?;
        self.push_within(within, all)
    }

    /// Queues a relist of a scope for which some objects are not available: see
    /// [`replace_keeping`](Self::replace_keeping). Returns the objects that were refused, including
    /// those outside of the scope.
    ///
    /// # Errors
    /// [`RelistError::UnknownScope`]: the scope was removed, or is another queue's. Nothing was
    /// queued.
    pub fn replace_keeping_in<'k>(
        &self,
        scope: &ScopeId,
        list: Vec<Arc<T>>,
        kept: impl IntoIterator<Item = &'k str>,
        version: &str,
    ) -> Result<Vec<Refused>, RelistError> {
        let mut list = OneByOne(list);
        let within = self.within(scope)?;
        let kept = kept.into_iter().map(Box::from).collect();
        let (all, mut refused) = self.all_but_refused(list.take(), kept, Some(&within), version);
        self.push_within(within, all)?;
        Ok(refused.take())
    }

    /// Queues a relist of a scope that deletes nothing: see
    /// [`replace_keeping_unlisted`](Self::replace_keeping_unlisted).
    ///
    /// # Errors
    /// [`RelistError::UnknownScope`]: the scope was removed, or is another queue's. Nothing was
    /// queued.
    pub fn replace_keeping_unlisted_in(
        &self,
        scope: &ScopeId,
        list: Vec<Arc<T>>,
        version: &str,
    ) -> Result<Vec<Refused>, RelistError> {
        let mut list = OneByOne(list);
        let within = self.within(scope)?;
        let (all, mut refused) =
            self.all_but_refused(list.take(), Vec::new(), Some(&within), version);
        self.push_within(within, all.keeping_unlisted())?;
        Ok(refused.take())
    }

    /// Stops the initial population from waiting for the first list of `scope`. If that list comes
    /// later, it belongs to the initial population only if [`await_scope`](Self::await_scope) has
    /// made the population wait for it again. O(scopes).
    pub fn waive_scope(&self, scope: &ScopeId) {
        let synced = self.scopes.lock().waive(scope) && self.life.initial.commit();
        if synced {
            self.life.initial.announce();
        }
    }

    /// Ends a [waiver](Self::waive_scope) before the next list of `scope`: if the scope was never
    /// listed, the initial population waits for its first list again, unless all other first lists
    /// are complete already. O(scopes).
    pub fn await_scope(&self, scope: &ScopeId) {
        let mut scopes = self.scopes.lock();
        scopes.count_again(scope, &self.core.applied, || self.life.initial.claim());
    }

    /// Removes a scope: a relist of it without objects is queued, so in its turn the scope's keys
    /// are deleted, with tombstones that have
    /// [`scope_removed`](crate::DeletedFinalStateUnknown::scope_removed) set. Stop the scope's
    /// producers first: a key that is offered later stays. O(scopes).
    ///
    /// # Errors
    /// [`RelistError::UnknownScope`] if the scope was removed before, or is another queue's.
    /// Nothing was queued.
    pub fn remove_scope(&self, scope: &ScopeId) -> Result<(), RelistError> {
        let mut scopes = self.scopes.lock();
        let within = scopes.within(scope).ok_or_else(|| unknown(scope))?;
        let synced = scopes.remove(scope) && self.life.initial.commit();
        // With the lock held, so that no list of the scope comes after its removal.
        self.push_under(scopes, LogEntry::whole(ReplacedAll::removal(within), 0), synced);
        Ok(())
    }

    pub(super) fn check_no_scopes(&self) -> Result<(), RelistError> {
        if self.scopes.lock().is_empty() { Ok(()) } else { Err(RelistError::HasScopes) }
    }

    /// Queues a relist of the whole queue, unless the queue has scopes.
    pub(super) fn push_all(&self, list: ReplacedAll<T>) -> Result<(), RelistError> {
        let scopes = self.scopes.lock();
        if !scopes.is_empty() {
            mutant!(RefusedListReleasedUnderLock => drop(list));
            return Err(RelistError::HasScopes);
        }
        let marks = usize::from(self.life.initial.claim());
        let entry = LogEntry::whole(list, marks);
        self.life.initial.marked(marks);
        mutant!(CommittedWhenQueued => return self.push_and_commit(scopes, entry));
        // Before any consumer can take it: an event behind it must find the initial population
        // ended.
        let synced = self.life.initial.commit();
        mutant!(WholeListBesideScopes => return self.push_unlocked(scopes, entry, synced));
        // With the lock held, so that the relist comes before the relists of scopes that are added
        // later, whose keys it would delete.
        self.push_under(scopes, entry, synced);
        Ok(())
    }

    fn within(&self, scope: &ScopeId) -> Result<Within, RelistError> {
        self.scopes.lock().within(scope).ok_or_else(|| unknown(scope))
    }

    fn push_within(&self, within: Within, list: ReplacedAll<T>) -> Result<(), RelistError> {
        let mut scopes = self.scopes.lock();
        let scope = within.scope.clone();
        if scopes.within(&scope).is_none() {
            mutant!(RefusedScopeListReleasedUnderLock => drop(list));
            return Err(unknown(&scope));
        }
        let is_initial = scopes.is_awaited(&scope);
        let marks = usize::from(is_initial);
        self.life.initial.marked(marks);
        // Before any consumer can take it: an event behind the last first list must find the
        // initial population ended.
        let applied = &self.core.applied;
        let completes = scopes.listed(&scope, list.version(), is_initial, applied);
        let synced = completes && self.life.initial.commit();
        let entry = LogEntry::whole(list.within(within), marks);
        mutant!(ListedAfterTheRemoval => return self.push_unlocked(scopes, entry, synced));
        // With the lock held, so that the list comes before the removal of the scope.
        self.push_under(scopes, entry, synced);
        Ok(())
    }

    /// Appends a relist with the scopes locked by `guard`, and releases the lock. Then wakes a
    /// consumer, and, if the queue has become `synced`, the callers that wait for the initial sync.
    fn push_under<G>(&self, guard: G, entry: LogEntry<T>, synced: bool) {
        self.append(entry);
        drop(guard);
        self.log.announce();
        if synced {
            self.life.initial.announce();
        }
    }
}

fn unknown(scope: &ScopeId) -> RelistError {
    RelistError::UnknownScope { scope: scope.name().to_owned() }
}

/// The code of deliberate defects (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{InOrderFifo, LogEntry, Meta, RelistError};

    impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
        /// Queues a relist, with the defect `CommittedWhenQueued`: a consumer can take the relist
        /// before the initial population ends.
        pub(super) fn push_and_commit<G>(
            &self,
            scopes: G,
            entry: LogEntry<T>,
        ) -> Result<(), RelistError> {
            drop(scopes);
            self.push_under((), entry, false);
            if self.life.initial.commit() {
                self.life.initial.announce();
            }
            Ok(())
        }

        /// Queues a relist, with the defects `WholeListBesideScopes` and `ListedAfterTheRemoval`:
        /// a scope can be added and relisted, or removed, before this relist is queued.
        pub(super) fn push_unlocked<G>(
            &self,
            scopes: G,
            entry: LogEntry<T>,
            synced: bool,
        ) -> Result<(), RelistError> {
            drop(scopes);
            self.push_under((), entry, synced);
            Ok(())
        }
    }
}
