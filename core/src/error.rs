//! Every error of the crate. The messages say what happened to which key and what to do about it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::engine::sync::assert_none_held;

/// An error of a user's function.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An object has no key (client-go `KeyError`).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// `MetaNamespaceKey` needs a name.
    #[error("the object has no name, so it has no key: give it a name, or the queue another key function")]
    NoName,
    /// There is no newest object in empty deltas (client-go `ErrZeroLengthDeltasObject`).
    #[error("zero-length Deltas have no key: pass at least one delta")]
    ZeroLengthDeltas,
    /// The custom key function failed.
    #[error("the key function failed: {0}")]
    Function(#[source] BoxError),
}

/// An offer was refused; its object was not queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The object has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The transformer failed.
    #[error("the transformer failed for key {key:?}{}, so the object was not queued: {source}", at(version.as_deref()))]
    Transform {
        /// Key of the object.
        key: String,
        /// Its version as received, if it has one.
        version: Option<String>,
        /// What the transformer said.
        source: BoxError,
    },
}

/// A relist or a batch stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelistError {
    /// One object was refused: those before it in the page are queued, it and those after it are not.
    #[error("object {index} of the page was refused, the {index} before it are queued, nothing is deleted: {source}")]
    Refused {
        /// Its place in the page, from 0.
        index: usize,
        /// Why.
        source: OfferError,
    },
    /// One object of a list that is queued as a whole, or not at all, was refused.
    #[error(
        "object {index} of the list was refused, so nothing of the list is queued, and nothing is deleted: {source}"
    )]
    RefusedWhole {
        /// Its place in the list, from 0.
        index: usize,
        /// Why.
        source: OfferError,
    },
    /// A newer relist has begun since.
    #[error("a newer relist has begun: this one is over, what it did until then stays, it does nothing more")]
    Superseded,
    /// The queue has begun 2^32 - 1 relists, and has no number for another.
    #[error(
        "this queue has begun 2^32 - 1 relists, and can begin no more, so nothing was listed or deleted: build a new queue, \
         and find out what begins relists in a loop"
    )]
    Exhausted,
}

/// The queue is closed and empty (client-go `ErrFIFOClosed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed and nothing is left in it")]
pub struct Closed;

/// A version that cannot be compared, or that nothing would come of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// Only decimal numbers compare.
    #[error(
        "{version:?} is no decimal number, so it cannot be said what is newer: pass a resourceVersion as the API server \
         gave it"
    )]
    NotANumber {
        /// What was passed.
        version: String,
    },
    /// The queue does not ask what is applied.
    #[error(
        "version {version:?}: this queue does not track what is applied: use a DeltaFifo that is built with \
         track_applied(true)"
    )]
    NotTracked {
        /// What was passed.
        version: String,
    },
}

/// A wait for a version ended without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// It cannot be waited for.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// It was waited for when a complete list came at a lower version: the API server's history was replaced, as by
    /// an etcd restore. The version may come to mean another state, or never be reached.
    #[error(
        "the wait for version {version:?} ended: a complete list came at a lower version, so the API server was \
         probably restored from a backup, and this version belongs to its former history; read the object again, and \
         wait for the version that it has now"
    )]
    Rewound {
        /// The version that was waited for.
        version: String,
    },
    /// It will not be applied any more.
    #[error(
        "version {version:?} will not be applied any more, since the queue was closed or dropped before: read the store as \
         it is, or wait for it in a new one"
    )]
    Closed {
        /// What was waited for.
        version: String,
    },
}

/// A pop with a deadline brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopError {
    /// The queue is closed and empty.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The deadline passed first; the queue is open.
    #[error("nothing came before the deadline: try again later")]
    TimedOut,
}

/// A handler called through [`process`](crate::DeltaFifo::process) did not succeed. In an
/// [`InOrderFifo`](crate::InOrderFifo) the key is `*` for a relist or resync as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError<E> {
    /// The queue is closed and empty; no handler ran.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The handler returned an error. Its deltas are not put back unless it asked for that.
    #[error("the handler of key {key:?} failed: {source}")]
    Handler {
        /// Key whose handler failed.
        key: String,
        /// What it returned.
        source: E,
    },
    /// The handler panicked. Its deltas are not put back; the key and the queue go on.
    #[error("the handler of key {key:?} panicked: {message}; its deltas are not put back")]
    Panicked {
        /// Key whose handler panicked.
        key: String,
        /// The panic's message.
        message: String,
    },
}

/// The store was changed, or not, and something about it needs a person's eye.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The object has no key; nothing was stored.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The transformer failed for what was to be stored; the store is as it was.
    #[error("the transformer failed for key {key:?}{}, so it was not stored: {source}", at(version.as_deref()))]
    Transform {
        /// Key of the object.
        key: String,
        /// Its version as received, if it has one.
        version: Option<String>,
        /// What the transformer said.
        source: BoxError,
    },
    /// An index function failed for what was to be stored; the store is as it was.
    #[error("index {index:?} failed for key {key:?}{}, so it was not stored: {source}", at(version.as_deref()))]
    Index {
        /// Name of the index.
        index: String,
        /// Key of the object.
        key: String,
        /// Its version, if it has one.
        version: Option<String>,
        /// What the index function said.
        source: BoxError,
    },
    /// An index function failed for what a watch has brought: it is stored and in all other indexes, but not in this one.
    #[error("index {index:?} failed for key {key:?}, which is stored but not in that index: {source}")]
    NotIndexed {
        /// Name of the index.
        index: String,
        /// Key of the object.
        key: String,
        /// What the index function said.
        source: BoxError,
    },
    /// An object panicked when it was dropped. What took its place is stored.
    #[error(
        "the object of key {key:?} that was replaced or deleted panicked when it was dropped, nothing is lost by that: {message}"
    )]
    Released {
        /// Its key.
        key: String,
        /// What the panic said.
        message: String,
    },
    /// The queue of this item has no fused store.
    #[error("key {key:?} cannot be applied: this queue has no fused store, build it with over(indexer)")]
    NoStore {
        /// Key of the item.
        key: String,
    },
    /// A queue that is written as a store refused the object; it was not queued.
    #[error(transparent)]
    Refused(OfferError),
    /// The relist of a queue that is written as a store stopped.
    #[error(transparent)]
    Relist(#[from] RelistError),
    /// A heap that is written as a store takes nothing after its close.
    #[error(transparent)]
    Heap(HeapError),
}

impl From<OfferError> for StoreError {
    fn from(error: OfferError) -> Self {
        match error {
            OfferError::Key(error) => Self::Key(error),
            error @ OfferError::Transform { .. } => Self::Refused(error),
        }
    }
}

impl From<HeapError> for StoreError {
    fn from(error: HeapError) -> Self {
        match error {
            HeapError::Key(error) => Self::Key(error),
            error @ (HeapError::Closed | HeapError::NotFound { .. }) => Self::Heap(error),
        }
    }
}

/// A [`Heap`](crate::Heap) was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// An object has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Something was added after the close.
    #[error("the heap is closed and takes nothing any more: stop adding, or make another heap")]
    Closed,
    /// There is nothing to delete.
    #[error("the heap has nothing under key {key:?} to delete: it was never added, or is popped already")]
    NotFound {
        /// Key of the object.
        key: String,
    },
}

/// What a handler behind a [`Queue`](crate::Queue) returned.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HandlerError(#[from] pub BoxError);

/// A [`MutationCache`](crate::MutationCache) cannot answer, or did not keep a write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MutationError {
    /// The object has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No such index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// What is newer can only be said of versions that are decimal numbers.
    #[error(
        "key {key:?} has the version {version:?}, which is no decimal number, so it cannot be said what is newer: let the \
         accessor's `version` give the object's resourceVersion"
    )]
    Version {
        /// Key of the object.
        key: String,
        /// Its version, empty if it has none.
        version: String,
    },
}

/// Objects that a store holds were changed in place.
#[derive(Debug, thiserror::Error)]
#[error(
    "cache {cache:?}: {count} of the objects watched were changed in place, after they were stored: store a changed copy \
     instead. The first was {before} and is {now}"
)]
pub struct Altered {
    /// Name of the detector.
    pub cache: String,
    /// How many objects.
    pub count: usize,
    /// The first one's snapshot when it was stored.
    pub before: String,
    /// And now.
    pub now: String,
}

/// A label selector that Kubernetes would not take, either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// Something else should stand there.
    #[error("character {at} of the selector: found {found}, expected {expected}")]
    Syntax {
        /// Where, in characters from 1.
        at: usize,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// A label's key breaks the rules.
    #[error("label key {key:?} {fault}, as in example.com/my-name or my-name")]
    Key {
        /// The key.
        key: String,
        /// What is wrong, and how it should be.
        fault: &'static str,
    },
    /// A label's value breaks the rules.
    #[error("value {value:?} of label {key:?} {fault}, as in my-value, my_value or 12345")]
    Value {
        /// The label's key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong, and how it should be.
        fault: &'static str,
    },
    /// `>` and `<` compare whole numbers.
    #[error("label {key:?} is compared with {value:?}: after > or < write a whole number of at most 64 bits")]
    Number {
        /// The label's key.
        key: String,
        /// What it is compared with.
        value: String,
    },
}

/// Some changes of a transaction could not be made; the others were.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} of {total} changes of the transaction failed, the others were made; the first, number {}: {}",
    .failed.len(), .failed.first().map_or(0, |(number, _)| *number), first_of(.failed)
)]
pub struct TransactionError {
    /// How many changes there were.
    pub total: usize,
    /// Those that failed, in order: the number of each, from 0, and why.
    pub failed: Vec<(usize, StoreError)>,
}

fn first_of(failed: &[(usize, StoreError)]) -> String {
    failed.first().map(|(_, error)| error.to_string()).unwrap_or_default()
}

/// A question to an index that does not exist, or whose function failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// No index of that name.
    #[error("there is no index {0:?}: name it when the indexer is built, or add it")]
    Unknown(String),
    /// Two indexes of one name; none was accepted.
    #[error("index {0:?} is given twice, or is there already: choose another name")]
    Conflict(String),
    /// The index function of a new index failed for a stored object; none was added.
    #[error("index {index:?} failed for the object stored under key {key:?}: {source}; no index was added")]
    Build {
        /// Name of the index.
        index: String,
        /// Key of the object.
        key: String,
        /// What the index function said.
        source: BoxError,
    },
    /// The index function failed for the object that was asked about.
    #[error("index {index:?} failed for the object asked about: {source}")]
    Function {
        /// Name of the index.
        index: String,
        /// What the index function said.
        source: BoxError,
    },
}

/// A version, as part of a message.
fn at(version: Option<&str>) -> String {
    version.map_or_else(String::new, |version| format!(" at version {version:?}"))
}

/// The message of a panic, whose payload ends here.
pub(crate) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    discard(panic);
    message
}

/// Drops what a panic brought, which may panic in its turn.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}

/// Calls a user's function. One that panics has failed, like one that returns an error: that costs what it was called for, and not
/// what came with it.
pub(crate) fn fallible<R>(function: impl FnOnce() -> Result<R, BoxError>) -> Result<R, BoxError> {
    assert_none_held();
    catch_unwind(AssertUnwindSafe(function))
        .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_message(panic)).into()))
}

/// Runs a stranger's code (a waker, what listens to the log) that must not end what it is told of. `None`: it panicked.
pub(crate) fn unharmed<R>(told: impl FnOnce() -> R) -> Option<R> {
    assert_none_held();
    catch_unwind(AssertUnwindSafe(told)).map_err(discard).ok()
}

/// The first panic of several calls of strangers' code, all of which are to be made.
#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    /// Makes one of the calls.
    pub(crate) fn of(&mut self, call: impl FnOnce()) {
        match catch_unwind(AssertUnwindSafe(call)) {
            Err(panic) if self.0.is_none() => self.0 = Some(panic),
            Err(panic) => discard(panic),
            Ok(()) => {}
        }
    }

    /// Goes on with the panic, if there was one, and none is under way already: a second one would end the process.
    pub(crate) fn go_on(self) {
        match self.0 {
            Some(panic) if std::thread::panicking() => discard(panic),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
    }
}
