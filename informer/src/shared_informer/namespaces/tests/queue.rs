//! A queue that refuses scopes and whose commits wait, as a test wants.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use deltafifo::locks::Mutex;
use deltafifo::{
    Closed, DeltaFifo, DeltaObject, KeyScope, Refused, RelistError, ScopeError, ScopeId, StoreError,
};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::oneshot;

use crate::KubeMeta;
use crate::reflector::{Pieces, Scoped, Target};

pub(super) type Queue = DeltaFifo<ConfigMap, KubeMeta>;

/// A queue that refuses the next additions and removals of scopes.
pub(super) struct Refusing {
    pub(super) queue: Arc<Queue>,
    refusals: AtomicUsize,
    /// The gates of the next relists, by the namespaces that they list.
    gates: Mutex<HashMap<String, Gate>>,
}

impl Refusing {
    /// Wraps a queue. It refuses nothing, and no commit waits.
    pub(super) fn new(queue: Queue) -> Self {
        Self { queue: Arc::new(queue), refusals: AtomicUsize::new(0), gates: Mutex::default() }
    }

    /// Makes the next `times` additions and removals of scopes fail.
    pub(super) fn refuse(&self, times: usize) {
        self.refusals.store(times, Ordering::Relaxed);
    }

    /// Returns how many additions and removals will still fail.
    pub(super) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Makes the commit of the next relist of a namespace wait before it begins.
    pub(super) fn gate(&self, namespace: &str) -> GateKeeper {
        self.gate_at(namespace, false)
    }

    /// Makes the commit of the next relist of a namespace wait when it is done, before the informer
    /// learns of it.
    pub(super) fn gate_after(&self, namespace: &str) -> GateKeeper {
        self.gate_at(namespace, true)
    }

    fn gate_at(&self, namespace: &str, is_behind: bool) -> GateKeeper {
        let ((reached, is_reached), (opens, opened)) = (oneshot::channel(), mpsc::channel());
        self.gates.lock().insert(namespace.to_owned(), Gate { is_behind, reached, opened });
        GateKeeper { reached: is_reached, _opens_on_drop: opens }
    }

    fn refuses(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// The queue's side of a [`GateKeeper`]: it says that the commit has been reached, and waits until
/// the `GateKeeper` is dropped.
struct Gate {
    /// Whether the commit waits when it is done, instead of before it begins.
    is_behind: bool,
    reached: oneshot::Sender<()>,
    opened: mpsc::Receiver<()>,
}

/// A handle of a relist whose commit waits, on its thread, until the handle is dropped.
pub(super) struct GateKeeper {
    pub(super) reached: oneshot::Receiver<()>,
    _opens_on_drop: mpsc::Sender<()>,
}

/// A relist whose commit waits at a gate.
struct Gated(Box<dyn Pieces<ConfigMap>>, Gate);

impl Pieces<ConfigMap> for Gated {
    fn expect(&mut self, objects: usize) {
        self.0.expect(objects);
    }

    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        self.0.probe(listed)
    }

    fn offer(
        &mut self,
        names: &[&str],
        objects: Vec<Arc<ConfigMap>>,
    ) -> Result<Vec<Refused>, RelistError> {
        self.0.offer(names, objects)
    }

    fn delete(
        &mut self,
        name: &str,
        object: Option<DeltaObject<ConfigMap>>,
    ) -> Result<(), StoreError> {
        self.0.delete(name, object)
    }

    fn keep(&mut self, name: &str) -> Result<(), RelistError> {
        self.0.keep(name)
    }

    fn commit(self: Box<Self>, version: &str) -> Result<Vec<StoreError>, StoreError> {
        let Self(relist, Gate { is_behind, reached, opened }) = *self;
        let wait = || {
            // Both fail once the keeper is dropped.
            let _ = reached.send(());
            let _ = opened.recv();
        };
        if is_behind {
            let committed = relist.commit(version);
            wait();
            return committed;
        }
        wait();
        relist.commit(version)
    }
}

impl Target<ConfigMap> for Refusing {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<ConfigMap>> {
        Target::begin(Arc::clone(&self.queue))
    }

    fn add(&self, object: Arc<ConfigMap>) -> Result<(), StoreError> {
        Target::add(&*self.queue, object)
    }

    fn update(&self, object: Arc<ConfigMap>) -> Result<(), StoreError> {
        Target::update(&*self.queue, object)
    }

    fn delete(&self, object: DeltaObject<ConfigMap>) -> Result<(), StoreError> {
        Target::delete(&*self.queue, object)
    }

    fn bookmark(&self, version: &str) {
        Target::bookmark(&*self.queue, version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        Target::resync(&*self.queue)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>> {
        Target::ready(&*self.queue)
    }

    fn closed(&self) -> BoxFuture<'_, Closed> {
        Target::closed(&*self.queue)
    }

    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        self.queue.key_of_named(name)
    }
}

impl Scoped<ConfigMap> for Refusing {
    fn add_scope(&self, scope: KeyScope) -> Result<ScopeId, ScopeError> {
        if self.refuses() {
            return Err(ScopeError::RelistOpen { scope: "green".to_owned() });
        }
        Scoped::add_scope(&*self.queue, scope)
    }

    fn begin_in(self: Arc<Self>, scope: &ScopeId) -> (Box<dyn Pieces<ConfigMap>>, Option<u64>) {
        let (relist, history) = Scoped::begin_in(Arc::clone(&self.queue), scope);
        let relist = match self.gates.lock().remove(scope.name()) {
            Some(gate) => Box::new(Gated(relist, gate)),
            None => relist,
        };
        (relist, history)
    }

    fn bookmark_in(&self, scope: &ScopeId, version: &str) {
        Scoped::bookmark_in(&*self.queue, scope, version);
    }

    fn waive_scope(&self, scope: &ScopeId) {
        Scoped::waive_scope(&*self.queue, scope);
    }

    fn await_scope(&self, scope: &ScopeId) {
        Scoped::await_scope(&*self.queue, scope);
    }

    fn remove_scope(&self, scope: &ScopeId) -> Result<(), RelistError> {
        if self.refuses() {
            return Err(RelistError::Exhausted);
        }
        Scoped::remove_scope(&*self.queue, scope)
    }

    fn check(&self, object: &ConfigMap, scope: &ScopeId) -> Result<(), StoreError> {
        Scoped::check(&*self.queue, object, scope)
    }

    fn knows(&self, object: &ConfigMap) -> Option<bool> {
        self.queue.knows(object)
    }
}
