//! Implements [`ReflectorStore`], the trait through which a reflector writes, for the queue by key.

use super::DeltaFifo;
use crate::engine::sync::Arc;
use crate::error::StoreError;
use crate::{DeltaObject, Meta, ReflectorStore};

impl<T: Send + Sync, M: Meta<T>> ReflectorStore<T> for DeltaFifo<T, M> {
    fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        Ok(self.add(object)?)
    }

    fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        Ok(self.update(object)?)
    }

    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError> {
        Ok(self.delete(object)?)
    }

    fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), StoreError> {
        self.replace(list, version)?;
        Ok(())
    }

    fn bookmark(&self, version: &str) {
        // If the queue does not track versions, or this version is not a number, no thread can wait
        // for it. A queue with scopes has no version of its own.
        let _ = self.bookmark(version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        self.resync();
        Ok(())
    }
}
