//! Operations on a few keys. proptest generates them, a fuzzer's bytes encode them, and test
//! vectors are converted to them.

use std::sync::Arc;

use deltafifo::KeyScope;

use crate::{Obj, nameless, obj};

/// The keys: cluster-scoped ones, namespaced ones, and one too long for the cache line of its
/// slot.
pub const KEYS: [&str; 6] = [
    "a",
    "b",
    "ns/c",
    "ns/d",
    "a-key-that-is-too-long-for-the-line/of-its-slot",
    "other-namespace/e",
];

/// The number of keys.
pub(crate) const COUNT: u8 = {
    assert!(KEYS.len() == 6);
    6
};

/// A position in [`KEYS`]. A position beyond the last key stands for an object without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub u8);

impl Place {
    /// The position of an object without a name.
    pub const NAMELESS: Place = Place(15);

    /// Returns the key at this position; `None` for an object without a name.
    #[must_use]
    pub fn key(self) -> Option<&'static str> {
        KEYS.get(usize::from(self.0)).copied()
    }

    /// Returns an object with this position's key and the number `n`.
    #[must_use]
    pub fn object(self, n: u64) -> Arc<Obj> {
        self.key().map_or_else(nameless, |key| obj(key, n))
    }
}

/// A part of the keys that can be a scope of the queue.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The name of the scope.
    pub name: &'static str,
    /// The predicate; `None` if the scope is the namespace of that name.
    pub predicate: Option<fn(&str) -> bool>,
}

/// The parts that operations add as scopes. The last one has keys in common with other parts.
pub const PARTS: [Part; 4] = [
    Part { name: "ns", predicate: None },
    Part { name: "other-namespace", predicate: None },
    Part { name: "cluster", predicate: Some(|key| !key.contains('/')) },
    Part { name: "mixed", predicate: Some(|key| key.starts_with('a') || key == "ns/c") },
];

impl Part {
    /// Returns the part as a scope of the queue.
    #[must_use]
    pub fn scope(self) -> KeyScope {
        match self.predicate {
            None => KeyScope::namespace(self.name),
            Some(predicate) => KeyScope::keys(self.name, predicate),
        }
    }

    /// Returns whether the key belongs to the part.
    #[must_use]
    pub fn contains(self, key: &str) -> bool {
        match self.predicate {
            None => key.split_once('/').is_some_and(|(namespace, _)| namespace == self.name),
            Some(predicate) => predicate(key),
        }
    }
}

/// The configuration of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "options of a queue, each on or off")]
pub struct Setup {
    /// The kind of known objects. Comparisons that run with every kind ignore it.
    pub known: Known,
    /// Whether a relist queues Replaced deltas; otherwise it queues Sync deltas.
    pub emit_replaced: bool,
    /// The transformer.
    pub transform: TransformKind,
    /// The keys that are known at the start, as one bit for each position in [`KEYS`].
    pub known_places: u8,
    /// Whether a relist skips unchanged objects.
    pub skip_unchanged: bool,
    /// Whether a relist queues unchanged objects as well. If so, `skip_unchanged` has no effect.
    pub notify_unchanged: bool,
    /// Whether live events pass the backlog. If so, only the order of each key's deltas is
    /// compared.
    pub live_lane: bool,
}

impl Setup {
    /// Returns the positions of the keys that are known at the start.
    pub fn known_places(self) -> impl Iterator<Item = Place> {
        (0..COUNT).filter(move |place| self.known_places >> place & 1 == 1).map(Place)
    }
}

/// A kind of known objects, as in the test vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// No known objects.
    None,
    /// A set that never changes.
    Static,
    /// The store to which popped deltas are applied.
    Store,
}

/// A transformer, as in the test vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransformKind {
    /// No transformer.
    None,
    /// Changes the object.
    Tag,
    /// Fails for the object of this key.
    Fail(Place),
}

/// The end of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Applies the item and succeeds.
    Apply,
    /// Succeeds without applying the item.
    Done,
    /// Fails.
    Fail,
    /// Fails and asks for a requeue.
    FailAndRetry,
    /// Panics.
    Panic,
    /// Panics at the first change while it applies the item.
    ApplyAndPanic,
    /// Requeues the deltas.
    Requeue,
    /// Drops the item without a verdict, as a cancelled future does.
    Drop,
}

impl Verdict {
    /// All verdicts, in the order of their bytes.
    pub const ALL: [Verdict; 8] = [
        Verdict::Apply,
        Verdict::Done,
        Verdict::Fail,
        Verdict::FailAndRetry,
        Verdict::Panic,
        Verdict::ApplyAndPanic,
        Verdict::Requeue,
        Verdict::Drop,
    ];

    /// Returns whether the deltas are requeued.
    #[must_use]
    pub fn puts_back(self) -> bool {
        matches!(self, Verdict::FailAndRetry | Verdict::Requeue | Verdict::Drop)
    }

    /// Returns whether the item is applied.
    #[must_use]
    pub fn applies(self) -> bool {
        matches!(self, Verdict::Apply | Verdict::ApplyAndPanic)
    }
}

/// A step of a relist in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begins a relist, which supersedes the open one.
    Begin,
    /// Offers a page.
    Page(Vec<Place>),
    /// Probes a page, and offers the needed objects.
    Probe(Vec<Place>),
    /// Records a key as listed, without an object, so that the commit does not delete it.
    Keep(Place),
    /// Deletes a key with its object.
    Delete(Place),
    /// Deletes a key whose last state is unknown.
    DeleteTombstone(Place),
    /// Commits the relist.
    Commit,
    /// Abandons the relist.
    Abandon,
}

/// A change of one of the queue's scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds the scope.
    Add,
    /// Removes the scope.
    Remove,
    /// Waives the scope ([`waive_scope`](deltafifo::DeltaFifo::waive_scope)) until its next list or
    /// [`Await`](Self::Await).
    Waive,
    /// Ends the waiver of the scope ([`await_scope`](deltafifo::DeltaFifo::await_scope)).
    Await,
}

/// An operation on the queue. Every object that an operation creates has a number of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Offers a new object.
    Add(Place),
    /// Offers a changed object.
    Update(Place),
    /// Offers a deletion with the object.
    Delete(Place),
    /// Offers a tombstone, which contains an object if the flag is true.
    DeleteTombstone(Place, bool),
    /// Offers several changed objects at once.
    Batch(Vec<Place>),
    /// Runs a relist.
    Replace(Vec<Place>),
    /// A step of a relist in pieces.
    Relist(Step),
    /// A step of the relist that the last [`Step::Begin`] superseded.
    OldRelist(Step),
    /// A step of the relist of the scope at this position in [`PARTS`].
    RelistIn(u8, Step),
    /// A change of the scope at this position in [`PARTS`].
    Scope(u8, Change),
    /// Queues a Sync of every known object.
    Resync,
    /// Offers deltas as a whole. Kinds 0 to 4 are the variants of
    /// [`DeltaType`](deltafifo::DeltaType), 5 is a tombstone.
    AddIfNotPresent(Place, Vec<u8>),
    /// Closes the queue.
    Close,
    /// Takes a key and handles it.
    Pop(Verdict),
    /// Takes a key, whose handler runs until an [`End`](Op::End).
    Take,
    /// Ends one of the running handlers, by its position among them. The position wraps around.
    End(u8, Verdict),
    /// Takes several keys as a batch. The remaining keys of an earlier batch return to the queue.
    TakeBatch(u8),
    /// Takes the next key of the batch, whose handler runs until an [`End`](Op::End).
    Next,
    /// Drops the batch, whose remaining keys return to the queue.
    DropBatch,
}
