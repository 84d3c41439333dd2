//! A queue of deltas ([`DeltaFifo`]) as the target of a reflector.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use deltafifo::{
    Closed, DeltaFifo, DeltaObject, KeyScope, Meta, OfferError, Refused, Relist, RelistError,
    ScopeError, ScopeId, StoreError,
};
use futures_util::future::BoxFuture;

use super::scope::{self, check_namespace, have_same_uid};
use super::{Pieces, Scoped, Target, keys_of_named, tombstone};

impl<K: Send + Sync + 'static, M: Meta<K>> Target<K> for DeltaFifo<K, M> {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>> {
        let relist = DeltaFifo::begin_replace_owned(&self);
        Box::new(InPieces::new(relist, self, None))
    }

    fn add(&self, object: Arc<K>) -> Result<(), StoreError> {
        Ok(self.add(object)?)
    }

    fn update(&self, object: Arc<K>) -> Result<(), StoreError> {
        Ok(self.update(object)?)
    }

    fn delete(&self, object: DeltaObject<K>) -> Result<(), StoreError> {
        Ok(self.delete(object)?)
    }

    fn bookmark(&self, version: &str) {
        // An error means that the queue does not track applied versions, or that the version is not
        // a number, so no caller can wait for the version, or that the queue has scopes, which
        // refuse the lists of this source as well.
        let _ = self.bookmark(version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        self.resync();
        Ok(())
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>> {
        Box::pin(self.ready_async())
    }

    fn closed(&self) -> BoxFuture<'_, Closed> {
        Box::pin(self.closed_async())
    }

    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        keys_of_named([name], || queued(self), &self.store()).pop().map(|(_, key)| key)
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Scoped<K> for DeltaFifo<K, M> {
    fn add_scope(&self, scope: KeyScope) -> Result<ScopeId, ScopeError> {
        self.add_scope(scope)
    }

    fn begin_in(self: Arc<Self>, scope: &ScopeId) -> (Box<dyn Pieces<K>>, Option<u64>) {
        let relist = DeltaFifo::begin_replace_in_owned(&self, scope);
        let history = relist.history();
        (Box::new(InPieces::new(relist, self, Some(scope.clone()))), history)
    }

    fn bookmark_in(&self, scope: &ScopeId, version: &str) {
        // As in `Target::bookmark`.
        let _ = self.bookmark_in(scope, version);
    }

    fn waive_scope(&self, scope: &ScopeId) {
        self.waive_scope(scope);
    }

    fn await_scope(&self, scope: &ScopeId) {
        self.await_scope(scope);
    }

    fn remove_scope(&self, scope: &ScopeId) -> Result<(), RelistError> {
        self.remove_scope(scope).map(drop)
    }

    fn check(&self, object: &K, scope: &ScopeId) -> Result<(), StoreError> {
        check_namespace(&self.store(), object, scope)
    }

    fn knows(&self, object: &K) -> Option<bool> {
        let store = self.store();
        self.newest_is(object, |newest| have_same_uid(&store, newest, object))
    }

    #[cfg(feature = "leader-election")]
    fn sharded(self: Arc<Self>) -> Option<Arc<dyn super::Sharded<K>>> {
        Some(self)
    }
}

/// Returns the newest object of each pending key.
fn queued<K: Send + Sync, M: Meta<K>>(fifo: &DeltaFifo<K, M>) -> Vec<Arc<K>> {
    fifo.list().into_iter().filter_map(|newest| newest.object.object().cloned()).collect()
}

struct InPieces<K: Send + Sync + 'static, M: Meta<K>> {
    relist: Relist<'static, K, M>,
    fifo: Arc<DeltaFifo<K, M>>,
    /// The scope that is relisted; `None` for the whole queue.
    scope: Option<ScopeId>,
    /// The names of listed objects that cannot be decoded or stored. The commit keeps the known
    /// objects of these names.
    kept: HashSet<Box<str>>,
    /// The names of deleted objects whose keys are not known. The commit searches the stored and
    /// pending objects for these names, and deletes what it finds.
    gone: HashSet<Box<str>>,
}

impl<K: Send + Sync + 'static, M: Meta<K>> InPieces<K, M> {
    fn new(
        relist: Relist<'static, K, M>,
        fifo: Arc<DeltaFifo<K, M>>,
        scope: Option<ScopeId>,
    ) -> Self {
        Self { relist, fifo, scope, kept: HashSet::new(), gone: HashSet::new() }
    }

    /// Returns whether an object called `name` belongs in this relist.
    fn contains(&self, name: &str) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope::contains(scope, name))
    }

    fn keys_are_names(&self) -> bool {
        self.fifo.store().keys().is_meta_namespace()
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Pieces<K> for InPieces<K, M> {
    fn expect(&mut self, objects: usize) {
        self.relist.expect(objects);
    }

    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        if !self.keys_are_names() {
            return Ok(vec![true; listed.len()]);
        }
        if listed.iter().all(|(name, _)| self.contains(name)) {
            return self.relist.probe(listed);
        }
        // An object of another namespace would make the whole list fail. It counts as needed, so
        // that `offer` refuses it alone.
        let within: Vec<_> =
            listed.iter().filter(|(name, _)| self.contains(name)).copied().collect();
        let mut needed = self.relist.probe(&within)?.into_iter();
        let is_needed = |(name, _): &(&str, _)| !self.contains(name) || needed.next() == Some(true);
        Ok(listed.iter().map(is_needed).collect())
    }

    fn offer(&mut self, names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError> {
        if !self.gone.is_empty() {
            for &name in names {
                self.gone.remove(name);
            }
        }
        let refused = self.relist.offer(objects)?;
        for Refused { index, .. } in
            refused.iter().filter(|refused| matches!(refused.source, OfferError::Key(_)))
        {
            // An object of another namespace cannot be kept: the commit would fail.
            self.keep(names[*index])?;
        }
        Ok(refused)
    }

    fn delete(&mut self, name: &str, object: Option<DeltaObject<K>>) -> Result<(), StoreError> {
        if let Some(scope) = &self.scope {
            scope::check_name(name, scope)?;
        }
        self.kept.remove(name);
        match object {
            Some(object) => {
                let deleted = self.relist.delete(object);
                if let Err(StoreError::Refused(OfferError::Key(_))) = deleted {
                    self.gone.insert(name.into());
                }
                deleted
            }
            None if self.keys_are_names() => self.relist.delete(tombstone(name)),
            None => {
                self.gone.insert(name.into());
                Ok(())
            }
        }
    }

    fn keep(&mut self, name: &str) -> Result<(), RelistError> {
        if !self.contains(name) {
            return Ok(());
        }
        self.gone.remove(name);
        self.kept.insert(name.into());
        Ok(())
    }

    fn ignore_versions(&mut self) {
        self.relist.ignore_versions();
    }

    fn keep_unlisted(&mut self) -> bool {
        self.relist.keep_unlisted();
        true
    }

    fn commit(mut self: Box<Self>, version: &str) -> Result<Vec<StoreError>, StoreError> {
        let names = self.kept.iter().chain(&self.gone).map(AsRef::as_ref);
        for (name, key) in keys_of_named(names, || queued(&self.fifo), &self.fifo.store()) {
            if self.kept.contains(name) {
                self.relist.keep(&key)?;
            } else {
                self.relist.delete(tombstone(&key))?;
            }
        }
        self.relist.commit(version)?;
        Ok(Vec::new())
    }
}
