//! A queue of deltas as a target.

use std::borrow::Cow;
use std::sync::Arc;

use deltafifo::{Closed, DeltaFifo, DeltaObject, Meta, Refused, Relist, RelistError, StoreError};
use futures_util::future::BoxFuture;

use super::{Pieces, Target, keys_of_named};

impl<K: Send + Sync + 'static, M: Meta<K>> Target<K> for DeltaFifo<K, M> {
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>> {
        Box::new(InPieces { relist: DeltaFifo::begin_replace_owned(&self), fifo: self, kept: Vec::new() })
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
        // Not tracked, or not a number: then nobody waits for it.
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
        keys_of_named(&self.store(), &[name]).pop()
    }
}

struct InPieces<K: Send + Sync + 'static, M: Meta<K>> {
    relist: Relist<'static, K, M>,
    fifo: Arc<DeltaFifo<K, M>>,
    /// Names of what is listed, and cannot be had.
    kept: Vec<Box<str>>,
}

impl<K: Send + Sync + 'static, M: Meta<K>> Pieces<K> for InPieces<K, M> {
    fn expect(&mut self, objects: usize) {
        self.relist.expect(objects);
    }

    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError> {
        let keys_are_names = self.fifo.store().keys().is_meta_namespace();
        if keys_are_names { self.relist.probe(listed) } else { Ok(vec![true; listed.len()]) }
    }

    fn offer(&mut self, _names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError> {
        self.relist.offer(objects)
    }

    fn delete(&mut self, _name: &str, object: DeltaObject<K>) -> Result<(), StoreError> {
        // Not after a newer relist has begun, of another reflector: it may list the object again.
        self.relist.probe(&[])?;
        Ok(self.fifo.delete(object)?)
    }

    fn keep(&mut self, name: &str) -> Result<(), RelistError> {
        self.kept.push(name.into());
        Ok(())
    }

    fn commit(mut self: Box<Self>, version: &str) -> Result<Vec<Refused>, StoreError> {
        let kept: Vec<_> = self.kept.iter().map(AsRef::as_ref).collect();
        for key in keys_of_named(&self.fifo.store(), &kept) {
            self.relist.keep(&key)?;
        }
        self.relist.commit(version)?;
        Ok(Vec::new())
    }
}
