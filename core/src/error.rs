//! The errors of the crate. Each message says what failed for which key, and what to do.

/// An error that a user function returned.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why an object has no key (client-go `KeyError`).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The object has no name, which `MetaNamespaceKey` requires.
    #[error(
        "the object has no name, so it has no key: give it a name, or the queue another key function"
    )]
    NoName,
    /// Empty deltas have no newest object (client-go `ErrZeroLengthDeltasObject`).
    #[error("zero-length Deltas have no key: pass at least one delta")]
    ZeroLengthDeltas,
    /// The custom key function failed.
    #[error("the custom key function failed, so the object has no key")]
    Function(#[source] BoxError),
}

/// The reason why an object was refused. A queue did not queue the object, or an
/// [`Indexer`](crate::Indexer) did not store it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The object has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The transformer failed.
    #[error(
        "the transformer failed for key {key:?}{}, so the object was refused",
        at(version.as_deref())
    )]
    Transform {
        /// The key of the object.
        key: String,
        /// The object's version as received, if it has one.
        version: Option<String>,
        /// The error of the transformer.
        source: BoxError,
    },
    /// The key does not belong to the scope that the relist, or the reflector that offers the
    /// object, is limited to.
    #[error("key {key:?} does not belong to scope {scope:?}{}, so the object was not queued", owner(older.as_deref()))]
    OutOfScope {
        /// The key of the object.
        key: String,
        /// The name of that scope.
        scope: String,
        /// The older scope that the key belongs to, if it lies in both: see
        /// [`KeyScope`](crate::KeyScope).
        older: Option<String>,
    },
    /// The queue has scopes, so it refuses a relist of all its keys.
    #[error(
        "the queue has scopes, so it is not relisted as a whole, and the object was not queued: relist \
         each scope, or remove them first"
    )]
    HasScopes,
}

/// The reason why a scope was not added to a queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The queue has a scope of this name.
    #[error("the queue has a scope {scope:?} already: use that one, or remove it first")]
    Overlaps {
        /// The namespace or name of the scope.
        scope: String,
    },
    /// A key lies in this scope and in another one; one of the two has a predicate.
    #[error(
        "key {key:?} lies in scope {scope:?} and in scope {other:?}, but scopes must have no key in \
         common: change the predicate"
    )]
    CommonKey {
        /// The scope that was to be added.
        scope: String,
        /// The scope that the queue has.
        other: String,
        /// The key that lies in both scopes.
        key: String,
    },
    /// The scope is a namespace, but the queue has a custom key function, whose keys need not
    /// contain the namespace.
    #[error(
        "scope {scope:?} is a namespace, but the queue has a custom key function, so its keys do not \
         contain the namespace: use KeyScope::keys"
    )]
    NeedsNames {
        /// The namespace that was to be added as a scope.
        scope: String,
    },
    /// A namespace has a slash in its name, so its keys could be those of another namespace.
    #[error(
        "scope {scope:?} is not a namespace, because its name has a slash: use the name of one \
         namespace, or KeyScope::keys"
    )]
    NotANamespace {
        /// The name that was to be added as a namespace.
        scope: String,
    },
    /// A relist of the whole queue is open.
    #[error(
        "a relist of the whole queue is open: commit or abandon it before scope {scope:?} is added"
    )]
    RelistOpen {
        /// The scope that was to be added.
        scope: String,
    },
}

/// The reason why a relist or a batch stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelistError {
    /// An object was refused. The objects before it in the page are queued; it and the objects
    /// after it are not.
    #[error(
        "object {index} of the page was refused, the {index} before it are queued, and nothing is deleted"
    )]
    Refused {
        /// The object's index in the page, from 0.
        index: usize,
        /// The reason why the object was refused.
        source: OfferError,
    },
    /// An object was refused in a list that is queued completely or not at all.
    #[error(
        "object {index} of the list was refused, so nothing of the list is queued, and nothing is deleted"
    )]
    RefusedWhole {
        /// The object's index in the list, from 0.
        index: usize,
        /// The reason why the object was refused.
        source: OfferError,
    },
    /// A newer relist has begun.
    #[error(
        "relist was superseded by a newer one: its queued deltas stay queued, and the rest of it is ignored"
    )]
    Superseded,
    /// The queue has scopes, so it refuses a relist of all its keys.
    #[error(
        "the queue has scopes, so it is not relisted as a whole, and nothing was listed or deleted: \
         relist each scope, or remove them first"
    )]
    HasScopes,
    /// The scope does not belong to this queue, or was removed from it.
    #[error(
        "the queue has no scope {scope:?}, so nothing was listed or deleted: it was removed, or belongs \
         to another queue"
    )]
    UnknownScope {
        /// The namespace or name of the scope.
        scope: String,
    },
    /// A key does not belong to the scope of the relist.
    #[error("key {key:?} does not belong to scope {scope:?}{}, so its relist ignores the key", owner(older.as_deref()))]
    OutOfScope {
        /// The key.
        key: String,
        /// The scope of the relist.
        scope: String,
        /// The older scope that the key belongs to, if it lies in both: see
        /// [`KeyScope`](crate::KeyScope).
        older: Option<String>,
    },
    /// The queue has begun 2^32 - 1 relists and cannot number another one.
    #[error(
        "queue cannot begin another relist after 2^32 - 1 of them, so nothing was listed or deleted: build a new \
         queue, and find out what begins relists in a loop"
    )]
    Exhausted,
}

/// The error of a pop or a wait on a closed queue (client-go `ErrFIFOClosed`). A pop returns it
/// once the queue is also empty. A wait, for example for the initial population, returns it if the
/// queue is closed first.
#[doc(alias = "ErrFIFOClosed")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue is closed, so the pop or wait ended without a result: stop, or build a new queue")]
pub struct Closed;

/// The reason why a version cannot be used: it cannot be compared, the queue does not track
/// versions, or the queue has a version for each scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// The version is not a decimal number.
    #[error(
        "version {version:?} is not a decimal number, so it cannot be compared: pass a resourceVersion as the API \
         server returned it"
    )]
    NotANumber {
        /// The version that was passed.
        version: String,
    },
    /// The queue does not track applied versions.
    #[error(
        "version {version:?} cannot be used, because the queue does not track applied versions: build a DeltaFifo \
         with track_applied(true)"
    )]
    NotTracked {
        /// The version that was passed.
        version: String,
    },
    /// The version was passed to a bookmark of the whole queue, but the queue has scopes. Each
    /// scope has bookmarks of its own.
    #[error(
        "version {version:?} is not applied, because the queue has scopes, and the version could pass a scope \
         that was not listed: bookmark each scope, or remove them first"
    )]
    HasScopes {
        /// The version that was passed.
        version: String,
    },
}

/// The reason why a wait for a version ended before the version was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The version cannot be waited for.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// During the wait a complete list arrived at a lower version: the API server's history was
    /// replaced, for example by an etcd restore. The awaited version may now mean another state, or
    /// may never be reached.
    #[error(
        "wait for version {version:?} ended: a complete list arrived at a lower version, so the API server was \
         probably restored from a backup, and this version belongs to its former history; read the object again, \
         and wait for its current version"
    )]
    Rewound {
        /// The version that was waited for.
        version: String,
    },
    /// The queue was closed, or the queue or the indexer was dropped, so the version will not be
    /// applied.
    #[error(
        "version {version:?} will not be applied, because the queue was closed or dropped: read the store as it is, \
         or wait in a new one"
    )]
    Closed {
        /// The version that was waited for.
        version: String,
    },
}

/// The error of [`process`](crate::DeltaFifo::process): no handler ran, or the handler failed or
/// panicked. In an [`InOrderFifo`](crate::InOrderFifo) the key for a relist or resync is the one
/// for which user code panicked, or else `*`.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError<E> {
    /// The queue is closed and empty; no handler ran.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The handler returned an error. Its item is not put back, unless the handler has called
    /// [`Popped::retry`](crate::Popped::retry). The message contains the handler's error, which
    /// need not be an [`Error`](std::error::Error), and which is therefore not the `source()` of
    /// this error.
    #[error("the handler of key {key:?} failed: {error}")]
    Handler {
        /// The key whose handler failed.
        key: String,
        /// The error that the handler returned.
        error: E,
    },
    /// The handler panicked. Its deltas are not put back; the key and the queue remain usable.
    #[error("the handler of key {key:?} panicked, and its deltas are not put back: {message}")]
    Panicked {
        /// The key whose handler panicked.
        key: String,
        /// The panic message.
        message: String,
    },
}

/// The error of a write to a store that failed, or succeeded only in part. Each variant says
/// whether the object was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The object was refused, and neither stored nor queued: it has no key, the transformer
    /// failed, or a queue behind the [`ReflectorStore`](crate::ReflectorStore) trait refused it.
    #[error(transparent)]
    Refused(#[from] OfferError),
    /// An index function failed for a new object, which was not stored. Other objects of the same
    /// list may be stored: see [`Indexer::replace`](crate::Indexer::replace).
    #[error("index {index:?} failed for key {key:?}{}, so the object was not stored", at(version.as_deref()))]
    Index {
        /// The name of the index.
        index: String,
        /// The key of the object.
        key: String,
        /// The object's version, if it has one.
        version: Option<String>,
        /// The error of the index function.
        source: BoxError,
    },
    /// An index function failed for an object of a watch. The object is stored and in all other
    /// indexes, but not in this one.
    #[error("index {index:?} failed for key {key:?}, which is stored but not in that index")]
    NotIndexed {
        /// The name of the index.
        index: String,
        /// The key of the object.
        key: String,
        /// The error of the index function.
        source: BoxError,
    },
    /// The drop of a replaced or deleted object panicked. The new state is stored.
    #[error(
        "drop of the old object of key {key:?} panicked, and the new state is stored: {message}"
    )]
    Released {
        /// The key of the object.
        key: String,
        /// The panic message.
        message: String,
    },
    /// The item's queue is not fused with a store.
    #[error(
        "key {key:?} cannot be applied: its queue has no fused store, build the queue with over(indexer)"
    )]
    NoStore {
        /// The key of the item.
        key: String,
    },
    /// The relist of a queue behind the [`ReflectorStore`](crate::ReflectorStore) trait stopped.
    #[error(transparent)]
    Relist(#[from] RelistError),
    /// A heap behind the [`ReflectorStore`](crate::ReflectorStore) trait is closed, or does not
    /// contain the object.
    #[cfg(feature = "caches")]
    #[error(transparent)]
    Heap(crate::caches::HeapError),
}

impl StoreError {
    /// Returns whether the new state is certainly stored. After another error a part of a list may
    /// be stored, too: see [`Indexer::replace`](crate::Indexer::replace).
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self, Self::NotIndexed { .. } | Self::Released { .. })
    }
}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        Self::Refused(error.into())
    }
}

/// The error of an invalid label selector, which Kubernetes rejects, too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// A syntax error.
    #[error("character {at} of the selector: found {found}, expected {expected}")]
    Syntax {
        /// The position of the error, in characters from 1.
        at: usize,
        /// The text found there.
        found: String,
        /// The text expected there.
        expected: &'static str,
    },
    /// An invalid label key.
    #[error("label key {key:?} {fault}, as in example.com/my-name or my-name")]
    Key {
        /// The label key.
        key: String,
        /// The fault, and how to correct it.
        fault: &'static str,
    },
    /// An invalid label value.
    #[error("value {value:?} of label {key:?} {fault}, as in my-value, my_value or 12345")]
    Value {
        /// The label key.
        key: String,
        /// The label value.
        value: String,
        /// The fault, and how to correct it.
        fault: &'static str,
    },
    /// An operand of `>` or `<` is not an integer.
    #[error(
        "label {key:?} is compared with {value:?}: after > or < write a whole number of at most 64 bits"
    )]
    Number {
        /// The label key.
        key: String,
        /// The operand.
        value: String,
    },
}

/// The error of a transaction in which some changes failed. All other changes were made.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} of {total} changes of the transaction failed, the others were made; the first failure, number {}: {}",
    .failed.len(), .failed.first().map_or(0, |(number, _)| *number), first_of(.failed)
)]
pub struct TransactionError {
    /// The number of changes in the transaction.
    pub total: usize,
    /// The failed changes in order: the number of each, from 0, and the error.
    pub failed: Vec<(usize, StoreError)>,
}

fn first_of(failed: &[(usize, StoreError)]) -> String {
    failed.first().map(|(_, error)| error.to_string()).unwrap_or_default()
}

/// The error of an index: a query to it failed, or it was not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is no index of that name, or it is still being built.
    #[error(
        "index {0:?} does not exist or is still being built: define it when the indexer is built, or \
         add it first"
    )]
    Unknown(String),
    /// The name of a new index is given twice in the call, or an index has it that cannot be
    /// [shared](crate::IndexReader::add_indexers) or that this thread is building. No index was
    /// added.
    #[error("index {0:?} is defined twice or exists already: choose another name")]
    Conflict(String),
    /// The function of a new index failed for a stored object. No index was added.
    #[error(
        "index {index:?} failed for the object stored under key {key:?}, so no index was added"
    )]
    Build {
        /// The name of the index.
        index: String,
        /// The key of the object.
        key: String,
        /// The error of the index function.
        source: BoxError,
    },
    /// The index function failed for the queried object.
    #[error("index {index:?} failed for the queried object")]
    Function {
        /// The name of the index.
        index: String,
        /// The error of the index function.
        source: BoxError,
    },
}

/// Formats a version as part of a message.
fn at(version: Option<&str>) -> String {
    version.map_or_else(String::new, |version| format!(" at version {version:?}"))
}

/// Formats, as part of a message, the older scope that a key belongs to if it lies in two scopes.
fn owner(older: Option<&str>) -> String {
    let owner = |older| {
        format!(", because the older scope {older:?} contains it as well (change a predicate)")
    };
    older.map_or_else(String::new, owner)
}

/// A key that a relist of a scope must not list.
pub(crate) struct Outside {
    pub(crate) key: String,
    pub(crate) scope: String,
    /// The older scope that the key belongs to, if it lies in the scope as well.
    pub(crate) older: Option<String>,
}

impl From<Outside> for OfferError {
    fn from(Outside { key, scope, older }: Outside) -> Self {
        Self::OutOfScope { key, scope, older }
    }
}

impl From<Outside> for RelistError {
    fn from(Outside { key, scope, older }: Outside) -> Self {
        Self::OutOfScope { key, scope, older }
    }
}
