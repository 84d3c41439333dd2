//! Scopes of the queue: each has relists of its own.

use super::relist::Relist;
use super::{Committed, DeltaFifo, KnownPlace};
use crate::Meta;
use crate::engine::slot::{Slot, State};
use crate::engine::sync::Arc;
use crate::error::{RelistError, ScopeError, VersionError};
use crate::scope::{Candidate, KeyScope, ScopeId};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Adds a scope, which is then relisted separately with
    /// [`begin_replace_in`](Self::begin_replace_in). Relists of different scopes run at once, and
    /// do not supersede each other. Each deletes only keys of its own scope.
    ///
    /// The first list of every scope that is added before the queue is populated belongs to the
    /// initial population: [`has_synced`](Self::has_synced) waits for all these lists. Nothing else
    /// populates the queue. The initial population does not wait for a scope that is added later.
    ///
    /// In a queue that [tracks the applied version](crate::DeltaFifoBuilder::track_applied), this
    /// version is the lowest of the scopes' versions. A new scope resets it to `None`, until the
    /// first list of the scope has been handled or the scope is [waived](Self::waive_scope).
    ///
    /// # Restores of etcd
    /// After etcd was restored from a backup, a new *history* of versions begins, in which the same
    /// number may mean another state. A list shows a restore if its version is lower than the
    /// version that its scope has reached. (A list at version 0 shows nothing.) After such a list,
    /// list every scope again, and let these relists [ignore
    /// versions](crate::Relist::ignore_versions). There is no applied version while the last list
    /// of a scope is of a former history, whatever the bookmarks of the scope say. Scopes that are
    /// waived do not count.
    ///
    /// Two rules decide to which history a list belongs:
    ///
    /// - It belongs to the history in which its relist began, because the server may have answered
    ///   it before the restore. This holds even if a list of another scope begins a new history
    ///   before this list is committed.
    /// - If its version is lower than the version that its scope has reached, it belongs at least
    ///   to the history after that of the scope's last list. Its commit begins this history, unless
    ///   a list of another scope has begun it.
    ///
    /// # Cost
    /// The first namespace costs O(known). From then on the queue keeps a hash of each key by
    /// namespace. While all scopes are namespaces, each further one costs O(scopes).
    ///
    /// Predicates cost more. If there are other scopes, and the new one or one of them has a
    /// predicate, this method calls the predicates for all known and pending keys, to find a key
    /// that is in two scopes. A relist calls the predicates of its scope and of older scopes for
    /// the keys that it lists. Its commit calls them for the known keys that were not listed.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{DeltaFifo, Indexer, KeyFunc, KeyScope, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |key: &String| Ok(key.clone()));
    /// let fifo = DeltaFifo::over(Indexer::builder(keys).build()?).build();
    /// let blue = fifo.add_scope(KeyScope::keys("blue", |key| key.starts_with("blue/")))?;
    /// let green = fifo.add_scope(KeyScope::keys("green", |key| key.starts_with("green/")))?;
    ///
    /// let list = |fifo: &DeltaFifo<String, NoMeta>, scope, keys: &[&str]| {
    ///     let mut relist = fifo.begin_replace_in(scope);
    ///     relist.offer(keys.iter().map(|key| Arc::new((*key).to_owned())).collect())?;
    ///     relist.commit("1")
    /// };
    /// list(&fifo, &green, &["green/a"])?;
    /// list(&fifo, &blue, &["blue/a", "blue/b"])?;
    /// while let Some(mut item) = fifo.try_pop() {
    ///     item.apply(|_| ())?;
    /// }
    /// assert!(fifo.has_synced());
    /// // A list of one scope says nothing about the keys of another.
    /// assert_eq!(list(&fifo, &blue, &["blue/b"])?.deleted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ScopeError`]: the scope has a name or a known or pending key in common with another one,
    /// it is a namespace with a slash in its name, it is a namespace and the queue has a custom key
    /// function, or a relist of the whole queue is open. Nothing was changed. If a later key is in
    /// two scopes, it belongs to the older one: see [`KeyScope`].
    ///
    /// # Panics
    /// If the predicate of a scope panics.
    pub fn add_scope(&self, scope: KeyScope) -> Result<ScopeId, ScopeError> {
        let mut candidate = Candidate::new(scope, &self.core.keys)?;
        if candidate.is_namespace() {
            self.core.table.keep_by_namespace();
        }
        loop {
            let mut last = self.relists.last.lock();
            if let Some(rivals) = candidate.unchecked(&last.scopes) {
                drop(last);
                candidate.check(rivals, self.keys())?;
                continue;
            }
            if last.is_whole_open() {
                return Err(ScopeError::RelistOpen { scope: candidate.scope.name().to_owned() });
            }
            let history = self.core.applied.history();
            last.scopes.add(&candidate.scope, history, || self.life.initial.claim())?;
            self.core.applied.add_part();
            break;
        }
        Ok(candidate.scope)
    }

    /// Returns all keys that are known or pending, copied shard by shard.
    fn keys(&self) -> impl Iterator<Item = String> {
        let elsewhere = match &self.known {
            KnownPlace::Elsewhere { objects, .. } => objects.list_keys(),
            KnownPlace::Fused | KnownPlace::Nowhere => Vec::new(),
        };
        let slots = self.core.table.shards().iter().flat_map(|shard| {
            let shard = shard.read();
            // A slot outlives its deleted key while an entry of the backlog is stale.
            let exists = |slot: &&Slot<T>| slot.state() != State::Idle || slot.is_known();
            let keys = shard.slots_near().filter(exists).map(|slot| slot.key().to_owned());
            keys.collect::<Vec<_>>()
        });
        slots.chain(elsewhere)
    }

    /// Begins a relist of a scope; it supersedes one of the same scope that is still open. See
    /// [`begin_replace`](Self::begin_replace).
    ///
    /// Begin the relist before the request of the list is sent. In a queue that tracks the applied
    /// version, the list counts as one of the [history](Self::add_scope) in which its relist began.
    /// If the relist begins only after the server has answered, and the server was restored in
    /// between, an old list can count as one of the new history.
    ///
    /// The commit is O(known), or O(known in the scope) for a namespace.
    ///
    /// Objects whose keys do not belong to the scope are refused, and `probe`, `keep` and `delete`
    /// fail for such keys. If the scope was removed before, the fallible methods fail with
    /// [`RelistError::UnknownScope`]. [`remove_scope`](Self::remove_scope) supersedes a relist that
    /// is open, so its fallible methods then fail with [`RelistError::Superseded`].
    pub fn begin_replace_in(&self, scope: &ScopeId) -> Relist<'_, T, M> {
        Relist::borrowed(self, self.begin_relist_in(scope))
    }

    /// Begins a relist of a scope as [`begin_replace_in`](Self::begin_replace_in) does. The relist
    /// keeps the queue alive, so that it can move from thread to thread.
    #[doc(hidden)]
    pub fn begin_replace_in_owned(this: &Arc<Self>, scope: &ScopeId) -> Relist<'static, T, M> {
        Relist::shared(Arc::clone(this), this.begin_relist_in(scope))
    }

    /// Declares that everything in `scope` up to `version` has been offered. The applied version is
    /// the lowest of the scopes' versions: a scope that has had neither a list nor a bookmark holds
    /// it back, unless it is [waived](Self::waive_scope). A bookmark belongs to the
    /// [history](Self::add_scope) of the scope's last list. Before the first list it belongs to the
    /// history in which the scope was added. See [`bookmark`](Self::bookmark). O(scopes).
    ///
    /// # Errors
    /// [`VersionError::NotANumber`] if `version` is not a decimal number,
    /// [`VersionError::NotTracked`] without
    /// [`track_applied`](crate::DeltaFifoBuilder::track_applied). For a scope that was removed, a
    /// decimal `version` changes nothing and is not an error.
    pub fn bookmark_in(&self, scope: &ScopeId, version: &str) -> Result<(), VersionError> {
        let mut last = self.relists.last.lock();
        let complete = self.mark_scope(&mut last.scopes, scope, version, None)?;
        drop(last);
        self.committed(complete);
        Ok(())
    }

    /// Excludes `scope` from the initial population and from the applied version, for example
    /// because the server refuses to list it. The initial population no longer waits for the
    /// scope's first list. The applied version no longer waits for its lists and bookmarks, and
    /// says nothing about its keys.
    ///
    /// The scope counts in the applied version again after its next list or bookmark, or after
    /// [`await_scope`](Self::await_scope). There is then no applied version until all earlier
    /// offers are handled. After that the applied version may be lower than before the waiver
    /// ended, because this scope may have a lower version. O(scopes).
    ///
    /// If a relist of the scope is open, the objects that it offers still belong to the initial
    /// population. [`has_synced`](Self::has_synced) does not wait for the relist's commit, but for
    /// the handlers of the objects that it has offered so far.
    pub fn waive_scope(&self, scope: &ScopeId) {
        let mut last = self.relists.last.lock();
        let synced = last.scopes.waive(scope) && self.life.initial.commit();
        let complete = self.mark_least(&last.scopes);
        drop(last);
        self.committed(complete);
        if synced {
            self.life.initial.announce();
        }
    }

    /// Ends a [waiver](Self::waive_scope) without a list or bookmark of `scope`. If the scope has
    /// had a list or a bookmark, it counts in the applied version again, with the version that it
    /// had reached. There is then no applied version until all earlier offers are handled, and
    /// after that the applied version is at most the version of the scope. If the scope has had
    /// neither, there is no applied version until its first list or bookmark.
    ///
    /// If the scope has had no list, [`has_synced`](Self::has_synced) waits for its first list,
    /// unless all other first lists are complete already. A relist of the scope that is open does
    /// not end this wait, because its deltas do not belong to the initial population. This holds
    /// even if the scope is waived and awaited once more after that relist's commit. Does nothing
    /// if the scope is not waived. O(scopes).
    pub fn await_scope(&self, scope: &ScopeId) {
        let mut last = self.relists.last.lock();
        last.scopes.count_again(scope, &self.core.applied, || self.life.initial.claim());
        let complete = self.mark_least(&last.scopes);
        drop(last);
        self.committed(complete);
    }

    /// Removes a scope: a deletion is queued for each of its keys that is known or pending, as by
    /// the commit of an empty relist, and an open relist of it is superseded. The tombstones have
    /// [`scope_removed`](crate::DeletedFinalStateUnknown::scope_removed) set, because the objects
    /// may still exist. Stop the scope's producers first: a key that is offered during the removal
    /// may stay. A key also stays if it is listed or offered for another scope that was added
    /// during the removal. O(known), or O(known in the scope) for a namespace.
    ///
    /// # Errors
    /// [`RelistError::UnknownScope`] if the scope belongs to another queue or was removed before,
    /// [`RelistError::Exhausted`] if the queue cannot number another relist. Nothing was changed.
    ///
    /// # Panics
    /// If the predicate of a scope panics, or an external store does. The scope is removed, and
    /// its keys, or some of them, stay.
    pub fn remove_scope(&self, scope: &ScopeId) -> Result<Committed, RelistError> {
        let removal = self.begin_removal(scope)?;
        Ok(Committed { deleted: self.sweep(&removal.span) })
    }
}
