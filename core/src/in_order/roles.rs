//! The in-order queue as a reflector and a controller see it.

use super::{Event, InOrderFifo};
use crate::engine::sync::Arc;
use crate::error::{BoxError, Closed, HandlerError, ProcessError, StoreError};
use crate::roles::ItemHandler;
use crate::{DeltaObject, Meta, Queue, ReflectorStore};

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

impl<T: Send + Sync, M: Meta<T>> Queue<T> for InOrderFifo<T, M> {
    type Item = Event<T>;

    fn process(
        &self,
        handler: &mut ItemHandler<'_, Event<T>>,
    ) -> Result<(), ProcessError<HandlerError>> {
        self.process(|turn| {
            let stored = turn.store();
            let initial = turn.is_in_initial_list();
            turn.event().map_or(Ok(()), |event| handler(event, initial))?;
            Ok(stored.map_err(BoxError::from)?)
        })
    }

    fn close(&self) {
        self.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn wait_for_sync(&self) -> Result<(), Closed> {
        self.wait_for_sync()
    }
}
