//! Known objects elsewhere: a store that the queue consults but does not own.

use crate::error::BoxError;
use crate::sync::Arc;

/// What is known outside the queue (client-go `KnownObjects`, `KeyListerGetter`). A queue over a fused
/// [`Indexer`](crate::Indexer) needs none; this is for stores that the queue does not own.
///
/// Both methods are called with no lock of the queue held.
pub trait KnownObjects<T>: Send + Sync {
    /// All keys. Their order is the order of the deletions that a relist finds and of a resync.
    fn list_keys(&self) -> Vec<String>;

    /// The object of `key`, `None` when it is not known.
    ///
    /// # Errors
    /// Whatever the store says. A deletion is then queued all the same, since dropping it could not be mended.
    fn get_by_key(&self, key: &str) -> Result<Option<Arc<T>>, BoxError>;
}
