//! Implements [`ReflectorStore`], the trait through which a reflector writes, for the in-order
//! queue.

use super::InOrderFifo;
use crate::engine::sync::Arc;
use crate::error::StoreError;
use crate::{DeltaObject, Meta, ReflectorStore};

impl<T: Send + Sync, M: Meta<T>> ReflectorStore<T> for InOrderFifo<T, M> {
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
        Ok(self.replace(list, version)?)
    }

    fn resync(&self) -> Result<(), StoreError> {
        self.resync();
        Ok(())
    }
}
