//! The transformer before a queue, and whether it leaves versions as they were received.

use crate::engine::sync::{Arc, AtomicBool, Ordering};
use crate::error::{BoxError, OfferError};
use crate::key::as_str;
use crate::store::Transformer;
use crate::{KeyFunc, Meta};

/// What a queue does to objects before it takes them.
pub(crate) struct Transform<T> {
    transformer: Option<Transformer<T>>,
    /// Set once it has changed an object's version: what is stored no longer says what was received.
    alters_versions: AtomicBool,
}

impl<T> Transform<T> {
    pub(crate) fn new(transformer: Option<Transformer<T>>) -> Self {
        Self { transformer, alters_versions: AtomicBool::new(false) }
    }

    pub(crate) fn by(transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static) -> Self {
        Self::new(Some(crate::store::transformer(transformer)))
    }

    pub(crate) fn is_some(&self) -> bool {
        self.transformer.is_some()
    }

    /// What is to be queued in the place of `object`, whose key is `key`.
    pub(crate) fn apply<M: Meta<T>>(
        &self,
        keys: &KeyFunc<T, M>,
        key: &[u8],
        object: Arc<T>,
    ) -> Result<Arc<T>, OfferError> {
        let Some(transformer) = &self.transformer else { return Ok(object) };
        let received = keys.meta().version(&object).map(str::to_owned);
        let object = match transformer(object) {
            Ok(object) => object,
            Err(source) => {
                return Err(OfferError::Transform { key: as_str(key).to_owned(), version: received, source });
            }
        };
        if keys.meta().version(&object) != received.as_deref() {
            // Release, paired with the Acquire of who would compare versions: set before the object is queued, hence
            // before it can be known.
            self.alters_versions.store(true, Ordering::Release);
        }
        Ok(object)
    }

    pub(crate) fn alters_versions(&self) -> bool {
        // Acquire, paired with the Release above.
        self.alters_versions.load(Ordering::Acquire)
    }
}
