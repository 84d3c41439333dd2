//! Implements [`ReflectorStore`], the trait through which a reflector writes, and [`Store`], the
//! trait of any store, for the [`Indexer`].

use crate::engine::release::UserCode;
use crate::engine::sync::Arc;
use crate::error::{KeyError, StoreError};
use crate::{DeltaObject, Indexer, Meta, ReflectorStore, Store};

impl<T: Send + Sync, M: Meta<T>> ReflectorStore<T> for Indexer<T, M> {
    fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.add(object)
    }

    fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.update(object)
    }

    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError> {
        self.delete(&*UserCode::new(object))
    }

    fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), StoreError> {
        self.replace_at(list, Some(version))
    }

    fn bookmark(&self, version: &str) {
        // A version that is not a number is ignored: it cannot be compared.
        let _ = self.bookmark(version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl<T: Send + Sync, M: Meta<T>> Store<T> for Indexer<T, M> {
    fn list(&self) -> Vec<Arc<T>> {
        self.reader().list()
    }

    fn list_keys(&self) -> Vec<String> {
        self.reader().list_keys()
    }

    fn get(&self, object: &T) -> Result<Option<Arc<T>>, KeyError> {
        self.reader().get(object)
    }

    fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.reader().get_by_key(key)
    }

    fn replace_keeping(
        &self,
        list: Vec<Arc<T>>,
        kept: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        Ok(self.replace_keeping_at(list, kept.iter().copied(), Some(version)))
    }
}
