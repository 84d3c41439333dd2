//! Targets that take a relist as a whole: it is put together here.

use std::borrow::Cow;
use std::sync::Arc;

use deltafifo::{
    Closed, DeltaObject, InOrderFifo, Meta, OfferError, ReflectorStore, Refused, RelistError, Store, StoreError,
};
use futures_util::future::BoxFuture;

use super::{Pieces, Target, key_of_named};

impl<K: Send + Sync + 'static, M: Meta<K>> Target<K> for InOrderFifo<K, M> {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>> {
        let known = self.store();
        Box::new(Whole { list: Vec::new(), known: move |key: &str| known.get_by_key(key), target: self })
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

    /// A bookmark tells nobody anything here.
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
        key_of_named(&self.store(), name)
    }
}

/// Any [`Store`] as a target: an [`Indexer`](deltafifo::Indexer), an [`UndeltaStore`](deltafifo::UndeltaStore), a
/// [`Fifo`](deltafifo::Fifo), …
///
/// Its keys are to be `namespace/name`, or `name`: with others an object that cannot be decoded is taken for gone.
pub struct Plain<S>(pub Arc<S>);

impl<K: Send + Sync + 'static, S: Store<K> + 'static> Target<K> for Plain<S> {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>> {
        let known = Arc::clone(&self.0);
        Box::new(Whole { list: Vec::new(), known: move |key: &str| known.get_by_key(key), target: Arc::clone(&self.0) })
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

/// A relist for what takes it as a whole.
struct Whole<K, S: ?Sized, F> {
    /// With their names.
    list: Vec<(Box<str>, Arc<K>)>,
    /// What is stored under a key.
    known: F,
    target: Arc<S>,
}

impl<K, S: ?Sized, F: Fn(&str) -> Option<Arc<K>>> Whole<K, S, F> {
    /// Puts the last good object in the place of the one at `index`, or nothing.
    fn leave_out(&mut self, index: usize, error: &OfferError) {
        let known = match error {
            OfferError::Transform { key, .. } => (self.known)(key),
            _ => None,
        };
        match (self.list.get_mut(index), known) {
            // Unless it is that one which is refused.
            (Some((_, listed)), Some(known)) if !Arc::ptr_eq(listed, &known) => *listed = known,
            (Some(_), _) => drop(self.list.remove(index)),
            (None, _) => {}
        }
    }
}

impl<K, S, F> Pieces<K> for Whole<K, S, F>
where
    K: Send + Sync + 'static,
    S: ReflectorStore<K> + ?Sized + 'static,
    F: Fn(&str) -> Option<Arc<K>> + Send + 'static,
{
    fn expect(&mut self, objects: usize) {
        // A server says so: beyond this it is not believed.
        self.list.reserve(objects.min(1 << 20).saturating_sub(self.list.len()));
    }

    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        Ok(vec![true; listed.len()])
    }

    fn offer(&mut self, names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError> {
        self.list.extend(names.iter().map(|name| Box::from(*name)).zip(objects));
        Ok(Vec::new())
    }

    fn delete(&mut self, name: &str, _object: DeltaObject<K>) -> Result<(), StoreError> {
        self.list.retain(|(listed, _)| **listed != *name);
        Ok(())
    }

    fn keep(&mut self, key: &str) -> Result<(), RelistError> {
        self.list.extend((self.known)(key).map(|known| (key.into(), known)));
        Ok(())
    }

    fn commit(mut self: Box<Self>, version: &str) -> Result<Vec<Refused>, StoreError> {
        let mut refused = Vec::new();
        loop {
            let list = self.list.iter().map(|(_, object)| Arc::clone(object)).collect();
            let stored = self.target.replace(list, version);
            let Err(StoreError::Relist(RelistError::RefusedWhole { index, source })) = stored else {
                return stored.map(|()| refused);
            };
            self.leave_out(index, &source);
            refused.push(Refused { index, source });
        }
    }
}
