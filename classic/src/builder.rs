//! How a [`MutexFifo`] is set up before its first offer.

use std::sync::Arc;

use deltafifo::{BoxError, KeyFunc, KnownObjects, Meta};

use super::known::Known;
use super::{MutexFifo, MutexStore};

pub(super) type Transformer<T> = Box<dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync>;

/// Options of a [`MutexFifo`].
#[must_use = "a builder does nothing until build()"]
pub struct MutexFifoBuilder<T, M> {
    pub(super) keys: Arc<KeyFunc<T, M>>,
    pub(super) known: Known<T, M>,
    pub(super) emit_replaced: bool,
    pub(super) ordered_walks: bool,
    pub(super) transformer: Option<Transformer<T>>,
}

impl<T, M: Meta<T>> MutexFifo<T, M> {
    /// A queue without known objects.
    pub fn builder(keys: KeyFunc<T, M>) -> MutexFifoBuilder<T, M> {
        MutexFifoBuilder::new(Arc::new(keys), Known::Nothing)
    }

    /// A queue whose known objects, and key function, are those of `store`.
    pub fn over(store: Arc<MutexStore<T, M>>) -> MutexFifoBuilder<T, M> {
        MutexFifoBuilder::new(store.keys().clone(), Known::Store(store))
    }
}

impl<T, M: Meta<T>> MutexFifoBuilder<T, M> {
    fn new(keys: Arc<KeyFunc<T, M>>, known: Known<T, M>) -> Self {
        Self { keys, known, emit_replaced: true, ordered_walks: false, transformer: None }
    }

    /// Known objects in somebody else's store.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known = Known::Custom(known);
        self
    }

    /// Whether a relist makes Replaced deltas (the default) or Sync ones.
    pub fn emit_replaced(mut self, yes: bool) -> Self {
        self.emit_replaced = yes;
        self
    }

    /// Whether known keys are walked in byte order, so that runs repeat. Otherwise their lister's
    /// order counts.
    pub fn ordered_walks(mut self, yes: bool) -> Self {
        self.ordered_walks = yes;
        self
    }

    /// Changes every object before it is queued. It runs under the queue's lock, as in client-go.
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.transformer = Some(Box::new(transformer));
        self
    }

    /// The queue, empty and open.
    #[must_use]
    pub fn build(self) -> MutexFifo<T, M> {
        MutexFifo::new(self)
    }
}
