//! Options of a [`MutexFifo`].

use std::sync::Arc;

use deltafifo::{BoxError, KeyFunc, KnownObjects, Meta};

use super::known::Known;
use super::{MutexFifo, MutexStore};

pub(super) type Transformer<T> = Box<dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync>;

/// A builder of a [`MutexFifo`].
#[must_use = "a builder does nothing until build()"]
pub struct MutexFifoBuilder<T, M> {
    pub(super) keys: Arc<KeyFunc<T, M>>,
    pub(super) known: Known<T, M>,
    pub(super) emit_replaced: bool,
    pub(super) ordered_walks: bool,
    pub(super) transformer: Option<Transformer<T>>,
}

impl<T, M: Meta<T>> MutexFifo<T, M> {
    /// Returns a builder of a queue without known objects.
    pub fn builder(keys: KeyFunc<T, M>) -> MutexFifoBuilder<T, M> {
        MutexFifoBuilder::new(Arc::new(keys), Known::Nothing)
    }

    /// Returns a builder of a queue that uses the key function of `store` and, as known objects,
    /// the objects of `store`.
    pub fn over(store: Arc<MutexStore<T, M>>) -> MutexFifoBuilder<T, M> {
        MutexFifoBuilder::new(store.keys().clone(), Known::Store(store))
    }
}

impl<T, M: Meta<T>> MutexFifoBuilder<T, M> {
    fn new(keys: Arc<KeyFunc<T, M>>, known: Known<T, M>) -> Self {
        Self { keys, known, emit_replaced: true, ordered_walks: false, transformer: None }
    }

    /// Sets the store whose objects are the known objects. By default this is the store that was
    /// given to [`MutexFifo::over`], or none.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known = Known::Custom(known);
        self
    }

    /// Sets whether a relist queues Replaced deltas (the default) or Sync deltas.
    pub fn emit_replaced(mut self, yes: bool) -> Self {
        self.emit_replaced = yes;
        self
    }

    /// Sets whether relists and resyncs visit the known keys in byte order, which makes runs
    /// repeatable. By default they visit the keys in the order in which the known objects list
    /// them.
    pub fn ordered_walks(mut self, yes: bool) -> Self {
        self.ordered_walks = yes;
        self
    }

    /// Sets a function that changes every object before it is queued. It runs while the queue is
    /// locked, as in client-go.
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.transformer = Some(Box::new(transformer));
        self
    }

    /// Builds the queue, which is empty and open.
    #[must_use]
    pub fn build(self) -> MutexFifo<T, M> {
        MutexFifo::new(self)
    }
}
