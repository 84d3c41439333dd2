//! Targets of a reflector that take a relist as a whole. The pieces of the relist are collected
//! here.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use deltafifo::panics::ignore_panic;
use deltafifo::{
    Closed, DeltaObject, InOrderFifo, KeyError, KeyScope, Meta, Refused, RelistError, ScopeError,
    ScopeId, Store, StoreError,
};
use futures_util::future::BoxFuture;

use super::scope::{self, check_namespace, have_same_uid};
use super::{Pieces, Rest, Scoped, Target, keys_of_named, tombstone};

impl<K: Send + Sync + 'static, M: Meta<K>> Target<K> for InOrderFifo<K, M> {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>> {
        Box::new(CollectedRelist::of(self))
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

    /// Does nothing: an in-order queue does not track the applied version.
    fn bookmark(&self, _version: &str) {}

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
        keys_of_named([name], Vec::new, &self.store()).pop().map(|(_, key)| key)
    }
}

/// Any [`Store`] as a target: an [`Indexer`](deltafifo::Indexer), or one of the stores and queues
/// of `deltafifo::caches` (feature `caches` of `deltafifo`).
///
/// Its keys must be `namespace/name`, or `name`; with other keys an object that cannot be decoded
/// counts as deleted. If the store refuses an object of a list, the error is reported, and the
/// stored object of the same name is [kept](Store::replace_keeping).
pub struct Plain<S>(pub Arc<S>);

impl<K: Send + Sync + 'static, S: Store<K> + 'static> Target<K> for Plain<S> {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>> {
        Box::new(CollectedRelist::of(self))
    }

    fn add(&self, object: Arc<K>) -> Result<(), StoreError> {
        self.0.add(object)
    }

    fn update(&self, object: Arc<K>) -> Result<(), StoreError> {
        self.0.update(object)
    }

    fn delete(&self, object: DeltaObject<K>) -> Result<(), StoreError> {
        self.0.delete(object)
    }

    fn bookmark(&self, version: &str) {
        self.0.bookmark(version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        self.0.resync()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn closed(&self) -> BoxFuture<'_, Closed> {
        Box::pin(std::future::pending())
    }

    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        Some(name.into())
    }
}

/// A target that takes a relist as a whole.
trait WholeListTarget<K>: Send + Sync + 'static {
    /// Checks that the target's custom key function, if there is one, has a key for `object`. If it
    /// has none, the relist keeps the known object of the same name.
    fn check_key(&self, object: &K) -> Result<(), KeyError>;

    /// Stores all listed objects, and keeps the stored objects with a name in `kept`, whose listed
    /// state cannot be stored. Returns the errors of refused objects.
    fn take(
        &self,
        list: Vec<Arc<K>>,
        kept: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError>;

    /// Stores a list that deletes only the objects named in `gone`.
    fn take_keeping_unlisted(
        &self,
        list: Vec<Arc<K>>,
        gone: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError>;
}

impl<K: Send + Sync + 'static, M: Meta<K>> WholeListTarget<K> for InOrderFifo<K, M> {
    fn check_key(&self, object: &K) -> Result<(), KeyError> {
        let store = self.store();
        if store.keys().is_meta_namespace() { Ok(()) } else { store.keys().key(object).map(drop) }
    }

    fn take(
        &self,
        list: Vec<Arc<K>>,
        kept: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        let kept = keys_of_named(kept.iter().copied(), Vec::new, &self.store());
        let refused = self.replace_keeping(list, kept.iter().map(|(_, key)| key.as_ref()), version);
        Ok(errors_of(refused))
    }

    fn take_keeping_unlisted(
        &self,
        list: Vec<Arc<K>>,
        gone: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        for (_, key) in keys_of_named(gone.iter().copied(), Vec::new, &self.store()) {
            self.delete(tombstone(&key))?;
        }
        let refused = self.replace_keeping_unlisted(list, version);
        Ok(errors_of(refused))
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Scoped<K> for InOrderFifo<K, M> {
    fn add_scope(&self, scope: KeyScope) -> Result<ScopeId, ScopeError> {
        self.add_scope(scope)
    }

    fn begin_in(self: Arc<Self>, scope: &ScopeId) -> (Box<dyn Pieces<K>>, Option<u64>) {
        let target = Arc::new(ScopeOf { fifo: self, scope: scope.clone() });
        (Box::new(CollectedRelist::of(target)), None)
    }

    fn bookmark_in(&self, _scope: &ScopeId, _version: &str) {}

    fn waive_scope(&self, scope: &ScopeId) {
        self.waive_scope(scope);
    }

    fn await_scope(&self, scope: &ScopeId) {
        self.await_scope(scope);
    }

    fn remove_scope(&self, scope: &ScopeId) -> Result<(), RelistError> {
        self.remove_scope(scope)
    }

    fn check(&self, object: &K, scope: &ScopeId) -> Result<(), StoreError> {
        check_namespace(&self.store(), object, scope)
    }

    fn knows(&self, object: &K) -> Option<bool> {
        // The log cannot be searched.
        if self.pending() > 0 {
            return None;
        }
        let store = self.store();
        let known = store.get(object).ok()?;
        Some(known.is_some_and(|known| have_same_uid(&store, &known, object)))
    }
}

/// One scope of an in-order queue.
struct ScopeOf<K: Send + Sync + 'static, M: Meta<K>> {
    fifo: Arc<InOrderFifo<K, M>>,
    scope: ScopeId,
}

impl<K: Send + Sync + 'static, M: Meta<K>> WholeListTarget<K> for ScopeOf<K, M> {
    fn check_key(&self, object: &K) -> Result<(), KeyError> {
        self.fifo.check_key(object)
    }

    fn take(
        &self,
        list: Vec<Arc<K>>,
        kept: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        let kept = keys_of_named(kept.iter().copied(), Vec::new, &self.fifo.store());
        let kept = kept.iter().map(|(_, key)| key.as_ref());
        Ok(errors_of(self.fifo.replace_keeping_in(&self.scope, list, kept, version)?))
    }

    fn take_keeping_unlisted(
        &self,
        list: Vec<Arc<K>>,
        gone: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        let gone = gone.iter().copied().filter(|name| scope::contains(&self.scope, name));
        for (_, key) in keys_of_named(gone, Vec::new, &self.fifo.store()) {
            self.fifo.delete(tombstone(&key))?;
        }
        Ok(errors_of(self.fifo.replace_keeping_unlisted_in(&self.scope, list, version)?))
    }
}

fn errors_of(refused: Vec<Refused>) -> Vec<StoreError> {
    refused.into_iter().map(|refused| refused.source.into()).collect()
}

impl<K: Send + Sync + 'static, S: Store<K> + 'static> WholeListTarget<K> for Plain<S> {
    fn check_key(&self, _object: &K) -> Result<(), KeyError> {
        Ok(())
    }

    fn take(
        &self,
        list: Vec<Arc<K>>,
        kept: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        self.0.replace_keeping(list, kept, version)
    }

    fn take_keeping_unlisted(
        &self,
        list: Vec<Arc<K>>,
        gone: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        let (kept, gone) = (self.0.list_keys(), gone.iter().copied().collect::<HashSet<_>>());
        let kept: Vec<_> =
            kept.iter().map(String::as_str).filter(|key| !gone.contains(key)).collect();
        self.0.replace_keeping(list, &kept, version)
    }
}

/// A relist that is being collected.
struct CollectedRelist<K, S: ?Sized> {
    /// The names of listed objects, each with the object to store, or with `None` if the stored
    /// object of that name is kept.
    list: Vec<(Box<str>, Option<Arc<K>>)>,
    /// The names of deleted objects, each with the length that `list` had at the time of the
    /// deletion.
    gone: HashMap<Box<str>, usize>,
    keeps_unlisted: bool,
    target: Arc<S>,
}

impl<K, S: ?Sized> CollectedRelist<K, S> {
    fn of(target: Arc<S>) -> Self {
        Self { list: Vec::new(), gone: HashMap::new(), keeps_unlisted: false, target }
    }
}

/// Catches the panics of the objects' destructors. An abandoned relist is dropped by the task that
/// waited for it, and such a panic must not end that task.
impl<K, S: ?Sized> Drop for CollectedRelist<K, S> {
    fn drop(&mut self) {
        // One by one, because a second panic during the first would abort the process.
        for (_, object) in self.list.drain(..) {
            ignore_panic(|| drop(object));
        }
    }
}

impl<K: Send + Sync + 'static, S: WholeListTarget<K> + ?Sized> Pieces<K> for CollectedRelist<K, S> {
    fn expect(&mut self, objects: usize) {
        // The limit protects against a server that announces more objects than it sends.
        self.list.reserve(objects.min(1 << 20).saturating_sub(self.list.len()));
    }

    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        Ok(vec![true; listed.len()])
    }

    fn offer(&mut self, names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError> {
        let (mut refused, mut rest) = (Vec::new(), Rest(objects.into_iter()));
        for (index, name) in names.iter().enumerate() {
            let Some(object) = rest.0.as_slice().first() else { break };
            let checked = self.target.check_key(object);
            let object = rest.0.next().filter(|_| checked.is_ok());
            self.list.push((Box::from(*name), object));
            refused.extend(checked.err().map(|source| Refused { index, source: source.into() }));
        }
        Ok(refused)
    }

    fn delete(&mut self, name: &str, _object: Option<DeltaObject<K>>) -> Result<(), StoreError> {
        self.gone.insert(name.into(), self.list.len());
        Ok(())
    }

    fn keep(&mut self, name: &str) -> Result<(), RelistError> {
        self.list.push((name.into(), None));
        Ok(())
    }

    fn keep_unlisted(&mut self) -> bool {
        self.keeps_unlisted = true;
        true
    }

    fn commit(mut self: Box<Self>, version: &str) -> Result<Vec<StoreError>, StoreError> {
        let (mut list, mut kept) = (Vec::with_capacity(self.list.len()), Vec::new());
        let mut gone = std::mem::take(&mut self.gone);
        for (index, (name, object)) in std::mem::take(&mut self.list).into_iter().enumerate() {
            match object {
                _ if gone.get(&name).is_some_and(|&gone| index < gone) => {}
                Some(object) => {
                    gone.remove(&name);
                    list.push(object);
                }
                None => {
                    gone.remove(&name);
                    kept.push(name);
                }
            }
        }
        if self.keeps_unlisted {
            let gone: Vec<_> = gone.keys().map(AsRef::as_ref).collect();
            return self.target.take_keeping_unlisted(list, &gone, version);
        }
        let kept: Vec<_> = kept.iter().map(AsRef::as_ref).collect();
        self.target.take(list, &kept, version)
    }
}
