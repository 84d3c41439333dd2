//! The engine `mutex`, of the classic design: a [`MutexFifo`] over a [`MutexStore`]. One thread
//! drains it, because its lock admits only one consumer at a time.

use std::convert::Infallible;
use std::sync::Arc;

use deltafifo::{KeyFunc, Labels, Meta, ProcessError, Selector, SelectorError};

use super::{Counts, Event, IndexEngine, ListEngine, QueueEngine, SelectorEngine, StoreEngine};
use crate::data::{APP, AppSelector, node};
use deltafifo_classic::{Change, MutexFifo, MutexStore, Popped, Verdict};

/// The engine of the classic design.
pub struct MutexEngine<T, M> {
    fifo: MutexFifo<T, M>,
    store: Arc<MutexStore<T, M>>,
}

impl<T, M: Meta<T>> MutexEngine<T, M> {
    pub fn new(meta: M) -> Self {
        Self::over(MutexStore::new(KeyFunc::meta_namespace(meta)))
    }

    /// Creates an empty engine with an index by node.
    pub fn with_nodes(meta: M) -> Self
    where
        M: Copy + 'static,
    {
        Self::over(MutexStore::indexed(KeyFunc::meta_namespace(meta), move |object| {
            node(&meta, object)
        }))
    }

    /// Creates an empty engine with an index of the label `app`.
    pub fn with_apps(meta: M) -> Self
    where
        M: Labels<T> + Copy + 'static,
    {
        Self::over(MutexStore::indexed(KeyFunc::meta_namespace(meta), move |object| {
            meta.label(object, APP).unwrap_or_default().to_owned()
        }))
    }

    fn over(store: MutexStore<T, M>) -> Self {
        let store = Arc::new(store);
        Self { fifo: MutexFifo::over(store.clone()).build(), store }
    }

    fn apply(
        &self,
        item: &Popped<T>,
        handler: &mut impl FnMut(&Event<'_, T>),
    ) -> Verdict<Infallible> {
        self.store.apply(item, |change| {
            handler(&match change {
                Change::Added { .. } => Event::Added,
                Change::Updated { new, .. } => Event::Updated(new),
                Change::Deleted { .. } => Event::Deleted,
            });
        });
        Verdict::Done
    }
}

impl<T: Send + Sync, M: Meta<T>> ListEngine<T> for MutexEngine<T, M> {
    type List = Vec<Arc<T>>;

    fn replace(&self, list: Vec<Arc<T>>, version: &str) {
        let replaced = self.fifo.replace(list, version);
        assert!(replaced.is_ok(), "every object has a name, and one thread lists: {replaced:?}");
    }

    fn drain(&self) -> Counts {
        let mut counts = Counts::default();
        let mut record = |event: &Event<'_, T>| counts.record(event);
        while self.fifo.try_pop(|item| self.apply(item, &mut record)).is_some() {}
        counts
    }

    fn for_each_known(&self, mut visit: impl FnMut(&T)) {
        for object in self.store.list() {
            visit(&object);
        }
    }
}

impl<T: Send + Sync, M: Meta<T>> StoreEngine<T> for MutexEngine<T, M> {
    type Key = String;

    fn key(&self, object: &Arc<T>) -> String {
        self.fifo.key_of(&**object).expect("every object has a name")
    }

    fn get(&self, key: &String) -> Option<impl AsRef<T>> {
        self.store.get_by_key(key)
    }
}

impl<T: Send + Sync, M: Meta<T>> IndexEngine<T> for MutexEngine<T, M> {
    fn by_node(&self, node: &str) -> Vec<Arc<T>> {
        self.store.by_index(node)
    }

    fn by_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.store.by_namespace(namespace)
    }
}

/// The engine's store does not know selectors. The caller looks up the app, and then checks each
/// object, as in client-go.
impl<T: Send + Sync, M: Labels<T>> SelectorEngine<T> for MutexEngine<T, M> {
    type Selector = (String, Selector);
    type Found = Arc<T>;

    fn selector(selector: &AppSelector) -> Result<Self::Selector, SelectorError> {
        Ok((selector.app.clone(), selector.to_string().parse()?))
    }

    fn select(&self, (app, selector): &Self::Selector) -> Vec<Arc<T>> {
        let meta = self.store.keys().meta();
        let mut objects = self.store.by_index(app);
        objects.retain(|object| selector.matches(|key| meta.label(object, key)));
        objects
    }
}

impl<T: Send + Sync, M: Meta<T>> QueueEngine<T> for MutexEngine<T, M> {
    fn update(&self, object: Arc<T>) {
        let updated = self.fifo.update(object);
        assert!(updated.is_ok(), "every object has a name: {updated:?}");
    }

    fn update_burst(&self, objects: Vec<Arc<T>>) {
        let updated = self.fifo.update_burst(objects);
        assert!(updated.is_ok(), "every object has a name: {updated:?}");
    }

    fn consume(&self, mut handler: impl FnMut(&Event<'_, T>)) -> usize {
        let mut pops = 0;
        while !matches!(
            self.fifo.pop(|item| self.apply(item, &mut handler)),
            Err(ProcessError::Closed(_))
        ) {
            pops += 1;
        }
        pops
    }

    fn close(&self) {
        self.fifo.close();
    }
}
