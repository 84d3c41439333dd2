//! The transformer of a queue, and a flag that is set when it changes the version of an object.

use crate::engine::release::UserCode;
use crate::engine::sync::{Arc, AtomicBool, Ordering};
use crate::error::{BoxError, OfferError};
use crate::key::as_str;
use crate::store::Transformer;
use crate::{KeyFunc, Meta};

/// The transformer of a queue, if it has one. It is called for objects before they are queued.
pub(crate) struct Transform<T> {
    transformer: Option<Transformer<T>>,
    /// Whether the transformer has changed an object's version. Stored versions can then not be
    /// compared with received ones.
    alters_versions: AtomicBool,
}

impl<T> Transform<T> {
    pub(crate) fn new(transformer: Option<Transformer<T>>) -> Self {
        Self { transformer, alters_versions: AtomicBool::new(false) }
    }

    pub(crate) fn by(
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Some(crate::store::transformer(transformer)))
    }

    pub(crate) fn is_some(&self) -> bool {
        self.transformer.is_some()
    }

    /// Returns the object to queue in place of `object`, whose key is `key`; or the transformer's
    /// error.
    pub(crate) fn apply<M: Meta<T>>(
        &self,
        keys: &KeyFunc<T, M>,
        key: &[u8],
        object: Arc<T>,
    ) -> Result<Arc<T>, OfferError> {
        let Some(transformer) = &self.transformer else { return Ok(object) };
        let object = UserCode::new(object);
        let received = keys.meta().version(&object).map(str::to_owned);
        let object = match transformer(object.into_inner()) {
            Ok(object) => UserCode::new(object),
            Err(source) => {
                return Err(OfferError::Transform {
                    key: as_str(key).to_owned(),
                    version: received,
                    source,
                });
            }
        };
        if keys.meta().version(&object) != received.as_deref() {
            // Release, paired with the Acquire in `alters_versions`. It is set before the object
            // is queued, so before the object can become known.
            self.alters_versions.store(true, Ordering::Release);
        }
        Ok(object.into_inner())
    }

    pub(crate) fn alters_versions(&self) -> bool {
        // Acquire, paired with the Release above.
        self.alters_versions.load(Ordering::Acquire)
    }
}
