//! One scope of a queue as a target, for a reflector that lists and watches one namespace.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafifo::panics::ignore_panic;
use deltafifo::{
    Closed, DeltaObject, IndexReader, KeyScope, Meta, OfferError, Refused, RelistError, ScopeError,
    ScopeId, StoreError,
};
use futures_util::future::BoxFuture;

use super::{History, Pieces, Rest, Target};

/// A queue whose scopes are relisted separately.
pub(crate) trait Scoped<K>: Target<K> {
    /// Adds a scope.
    fn add_scope(&self, scope: KeyScope) -> Result<ScopeId, ScopeError>;

    /// Begins a relist of a scope. Returns it with the number of the history in which it began, or
    /// `None` if the queue does not track the applied version.
    fn begin_in(self: Arc<Self>, scope: &ScopeId) -> (Box<dyn Pieces<K>>, Option<u64>);

    /// Declares that everything in the scope up to `version` has been offered.
    fn bookmark_in(&self, scope: &ScopeId, version: &str);

    /// Ends the wait for the scope's first list. The applied version ignores the scope until its
    /// next list or bookmark.
    fn waive_scope(&self, scope: &ScopeId);

    /// Waits for the scope again, if it was waived.
    fn await_scope(&self, scope: &ScopeId);

    /// Removes the scope, and deletes its objects. May block for a long time.
    fn remove_scope(&self, scope: &ScopeId) -> Result<(), RelistError>;

    /// Fails if `object` is in a namespace other than the namespace of `scope`.
    fn check(&self, object: &K, scope: &ScopeId) -> Result<(), StoreError>;

    /// Returns whether the newest known object of the same key has the same uid as `object`. A
    /// missing uid counts as the same. Returns `None` if `object` has no key, or if the queue does
    /// not know yet, because changes that were offered before are not handled.
    fn knows(&self, object: &K) -> Option<bool>;

    /// Returns the queue as the target of a source whose shards are moved, or `None` if the queue
    /// does not support that, which is the default.
    #[cfg(feature = "leader-election")]
    fn sharded(self: Arc<Self>) -> Option<Arc<dyn super::Sharded<K>>> {
        None
    }
}

/// The part of a queue that holds the objects of one namespace. An object of another namespace is
/// refused: the list of its own namespace would delete it.
pub(crate) struct InScope<K> {
    pub(crate) queue: Arc<dyn Scoped<K>>,
    pub(crate) scope: ScopeId,
    /// Whether an object was offered. Set before the first offer.
    pub(crate) has_objects: Arc<AtomicBool>,
    pub(crate) history: Arc<History>,
    /// Whether the next relist is the [final](Kind::Final) one.
    pub(crate) is_last: Arc<AtomicBool>,
    /// The function that is called after each complete list and each bookmark.
    pub(crate) on_reached: Arc<dyn Fn() + Send + Sync>,
}

/// A relist of a scope. The final relist of a namespace that has left the set deletes the known
/// objects that no longer exist, and does not offer objects that are new or changed, unless the
/// queue cannot tell yet which objects are known.
struct ScopeRelist<K> {
    relist: Box<dyn Pieces<K>>,
    target: Arc<InScope<K>>,
    kind: Kind,
}

/// The kind of a scope's relist.
#[derive(Clone, Copy)]
enum Kind {
    /// The relist of a namespace in the set, with the number of the history in which it began.
    Regular { began: u64 },
    /// The final relist of a namespace.
    Final,
}

impl<K: Send + Sync + 'static> ScopeRelist<K> {
    /// Keeps the known objects that a final list contains. If a listed object has the name of a
    /// known one, but another uid, the known object no longer exists. If the queue cannot compare
    /// the two yet, the listed object is offered: a notification of an object that is soon removed
    /// does less harm than the loss of a deletion.
    fn keep_known(
        &mut self,
        names: &[&str],
        objects: Vec<Arc<K>>,
    ) -> Result<Vec<Refused>, RelistError> {
        let (mut refused, mut rest) = (Vec::new(), Rest(objects.into_iter()));
        for (index, &name) in names.iter().enumerate() {
            let Some(object) = rest.0.as_slice().first() else { break };
            let Some(is_known) = self.target.queue.knows(object) else {
                let object = rest.0.by_ref().take(1).collect();
                let offered = self.relist.offer(&[name], object)?;
                refused.extend(offered.into_iter().map(|refused| Refused { index, ..refused }));
                continue;
            };
            // The destructor is user code.
            ignore_panic(|| drop(rest.0.next()));
            if is_known {
                self.relist.keep(name)?;
            }
        }
        Ok(refused)
    }
}

impl<K: Send + Sync + 'static> Pieces<K> for ScopeRelist<K> {
    fn expect(&mut self, objects: usize) {
        self.relist.expect(objects);
    }

    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        match self.kind {
            Kind::Regular { .. } => self.relist.probe(listed),
            // Each object is decoded, because its uid is compared.
            Kind::Final => Ok(vec![true; listed.len()]),
        }
    }

    fn offer(&mut self, names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError> {
        match self.kind {
            Kind::Regular { .. } => {
                // Relaxed: the reader first waits until no work is in flight.
                self.target.has_objects.fetch_or(!objects.is_empty(), Ordering::Relaxed);
                self.relist.offer(names, objects)
            }
            Kind::Final => self.keep_known(names, objects),
        }
    }

    fn delete(&mut self, name: &str, object: Option<DeltaObject<K>>) -> Result<(), StoreError> {
        self.relist.delete(name, object)
    }

    fn keep(&mut self, name: &str) -> Result<(), RelistError> {
        self.relist.keep(name)
    }

    fn keep_unlisted(&mut self) -> bool {
        self.relist.keep_unlisted()
    }

    fn ignore_versions(&mut self) {
        self.relist.ignore_versions();
    }

    fn commit(self: Box<Self>, version: &str) -> Result<Vec<StoreError>, StoreError> {
        match self.kind {
            Kind::Regular { began } => {
                let refused = self.relist.commit(version)?;
                self.target.history.listed(version, began);
                (self.target.on_reached)();
                Ok(refused)
            }
            // Without a version: the final list does not count as a list of the scope, because it
            // did not offer all of its objects.
            Kind::Final => self.relist.commit(""),
        }
    }
}

/// Returns whether two objects of the same key have the same uid. A missing uid counts as the same.
pub(super) fn have_same_uid<K, M: Meta<K>>(store: &IndexReader<K, M>, one: &K, other: &K) -> bool {
    let meta = store.keys().meta();
    let (one, other) = (meta.uid(one), meta.uid(other));
    one.is_none() || other.is_none() || one == other
}

/// Implements [`Scoped::check`] for a queue with this store.
pub(super) fn check_namespace<K, M: Meta<K>>(
    store: &IndexReader<K, M>,
    object: &K,
    scope: &ScopeId,
) -> Result<(), StoreError> {
    let namespace = store.keys().meta().namespace(object);
    if namespace == Some(scope.name()) {
        Ok(())
    } else {
        Err(outside(store.keys().key(object)?, scope))
    }
}

/// Fails if the object named `namespace/name` is in a namespace other than the namespace of
/// `scope`.
pub(super) fn check_name(name: &str, scope: &ScopeId) -> Result<(), StoreError> {
    if contains(scope, name) { Ok(()) } else { Err(outside(name.to_owned(), scope)) }
}

/// Returns whether the object named `namespace/name` lies in the namespace of `scope`.
pub(super) fn contains(scope: &ScopeId, name: &str) -> bool {
    name.split_once('/').is_some_and(|(namespace, _)| namespace == scope.name())
}

/// Creates the error of an object that lies in another namespace.
fn outside(key: String, scope: &ScopeId) -> StoreError {
    OfferError::OutOfScope { key, scope: scope.name().to_owned(), older: None }.into()
}

impl<K: Send + Sync + 'static> Target<K> for InScope<K> {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>> {
        // Relaxed: the same task, that of the informer, sets the flag and begins the relists.
        let is_last = self.is_last.load(Ordering::Relaxed);
        let scope = if is_last { self.scope.uncounted() } else { self.scope.clone() };
        let (mut relist, of_queue) = Arc::clone(&self.queue).begin_in(&scope);
        let kind = if is_last {
            Kind::Final
        } else {
            let (began, is_current) = self.history.begin(of_queue);
            if !is_current {
                // The known objects may be of a former history.
                relist.ignore_versions();
            }
            Kind::Regular { began }
        };
        Box::new(ScopeRelist { relist, target: self, kind })
    }

    fn add(&self, object: Arc<K>) -> Result<(), StoreError> {
        self.queue.check(&object, &self.scope)?;
        // Relaxed: as in `ScopeRelist::offer`.
        self.has_objects.store(true, Ordering::Relaxed);
        self.queue.add(object)
    }

    fn update(&self, object: Arc<K>) -> Result<(), StoreError> {
        self.queue.check(&object, &self.scope)?;
        // Relaxed: as in `ScopeRelist::offer`.
        self.has_objects.store(true, Ordering::Relaxed);
        self.queue.update(object)
    }

    fn delete(&self, object: DeltaObject<K>) -> Result<(), StoreError> {
        match &object {
            DeltaObject::Object(object) => self.queue.check(object, &self.scope)?,
            DeltaObject::Tombstone(tombstone) => check_name(&tombstone.key, &self.scope)?,
        }
        self.queue.delete(object)
    }

    fn bookmark(&self, version: &str) {
        self.queue.bookmark_in(&self.scope, version);
        self.history.reached(version);
        (self.on_reached)();
    }

    fn resync(&self) -> Result<(), StoreError> {
        self.queue.resync()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>> {
        self.queue.ready()
    }

    fn closed(&self) -> BoxFuture<'_, Closed> {
        self.queue.closed()
    }

    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        self.queue.key_of_named(name)
    }
}
