//! Implements the store and queue traits for `Fifo` and `Heap`.

use super::{Fifo, HandlerError, Heap, HeapError, ItemHandler, Queue};
use crate::engine::release::UserCode;
use crate::engine::sync::Arc;
use crate::error::{Closed, KeyError, ProcessError, StoreError};
use crate::{DeltaObject, Meta, ReflectorStore, Store};

macro_rules! as_store_and_queue {
    ($name:ident, $delete:expr) => {
        impl<T: Send + Sync, M: Meta<T>> ReflectorStore<T> for $name<T, M> {
            fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
                Ok(self.add(object)?)
            }

            fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
                Ok(self.update(object)?)
            }

            fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError> {
                $delete(self.delete(&*UserCode::new(object)))
            }

            fn replace(&self, list: Vec<Arc<T>>, _version: &str) -> Result<(), StoreError> {
                Ok(self.replace(list)?)
            }

            /// Does nothing: every object is queued already.
            fn resync(&self) -> Result<(), StoreError> {
                Ok(())
            }
        }

        impl<T: Send + Sync, M: Meta<T>> Store<T> for $name<T, M> {
            fn list(&self) -> Vec<Arc<T>> {
                (**self).list()
            }

            fn list_keys(&self) -> Vec<String> {
                (**self).list_keys()
            }

            fn get(&self, object: &T) -> Result<Option<Arc<T>>, KeyError> {
                (**self).get(object)
            }

            fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
                (**self).get_by_key(key)
            }
        }

        impl<T: Send + Sync, M: Meta<T>> Queue<T> for $name<T, M> {
            type Item = Arc<T>;

            fn process(
                &self,
                handler: &mut ItemHandler<'_, Arc<T>>,
            ) -> Result<(), ProcessError<HandlerError>> {
                self.process(|object, initial| Ok(handler(object, initial)?))
            }

            fn close(&self) {
                (**self).close();
            }

            fn is_closed(&self) -> bool {
                (**self).is_closed()
            }

            fn has_synced(&self) -> bool {
                (**self).has_synced()
            }

            fn wait_for_sync(&self) -> Result<(), Closed> {
                (**self).wait_for_sync()
            }
        }
    };
}

as_store_and_queue!(Fifo, |deleted: Result<(), KeyError>| Ok(deleted?));
as_store_and_queue!(Heap, |deleted| match deleted {
    // The object was popped before its deletion arrived, which is not an error.
    Err(HeapError::NotFound { .. }) => Ok(()),
    deleted => Ok(deleted?),
});
