//! Operations on a few keys: what proptest makes up, what a fuzzer's bytes spell, and what the
//! vectors are turned into.

use std::sync::Arc;

use crate::{Obj, nameless, obj};

/// The keys: of cluster scope, of a namespace, and one too long for the cache line of its slot.
pub const KEYS: [&str; 6] = [
    "a",
    "b",
    "ns/c",
    "ns/d",
    "a-key-that-is-too-long-for-the-line/of-its-slot",
    "other-namespace/e",
];

/// How many they are.
pub(crate) const COUNT: u8 = {
    assert!(KEYS.len() == 6);
    6
};

/// A place in [`KEYS`]; any beyond is that of an object without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub u8);

impl Place {
    /// The place of an object without a name.
    pub const NAMELESS: Place = Place(15);

    /// Its key, if it has one.
    #[must_use]
    pub fn key(self) -> Option<&'static str> {
        KEYS.get(usize::from(self.0)).copied()
    }

    /// Its object, with the number `n`.
    #[must_use]
    pub fn object(self, n: u64) -> Arc<Obj> {
        self.key().map_or_else(nameless, |key| obj(key, n))
    }
}

/// How the queue is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "options of a queue, each on or off")]
pub struct Setup {
    /// Which known objects there are; where all kinds are compared, all are.
    pub known: Known,
    /// Whether a relist makes Replaced deltas.
    pub emit_replaced: bool,
    /// What a transformer does, where there is one.
    pub transform: TransformKind,
    /// Which keys are known at the start: a bit for each place.
    pub known_places: u8,
    /// Whether a relist leaves unchanged objects out.
    pub skip_unchanged: bool,
    /// Whether it takes them anew all the same.
    pub notify_unchanged: bool,
    /// Whether live events pass what a relist has queued: then only the order per key is compared.
    pub live_lane: bool,
}

impl Setup {
    /// The places known at the start.
    pub fn known_places(self) -> impl Iterator<Item = Place> {
        (0..COUNT).filter(move |place| self.known_places >> place & 1 == 1).map(Place)
    }
}

/// Which known objects there are (the kinds of the vectors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// None at all.
    None,
    /// A set that never changes.
    Static,
    /// The set that popped deltas are applied to.
    Store,
}

/// What a transformer does (the kinds of the vectors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransformKind {
    /// There is none.
    None,
    /// Changes the object.
    Tag,
    /// Fails for one key.
    Fail(Place),
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Brings the store up to date and succeeds.
    Apply,
    /// Succeeds without that.
    Done,
    /// Fails.
    Fail,
    /// Fails and asks for the deltas to be put back.
    FailAndRetry,
    /// Panics.
    Panic,
    /// Panics at the first change it is told of while it brings the store up to date.
    ApplyAndPanic,
    /// Asks for the deltas to be put back.
    Requeue,
    /// Ends without a word, as a cancelled future does.
    Drop,
}

impl Verdict {
    /// All of them, as bytes count them.
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

    /// Whether the deltas go back.
    #[must_use]
    pub fn puts_back(self) -> bool {
        matches!(self, Verdict::FailAndRetry | Verdict::Requeue | Verdict::Drop)
    }

    /// Whether they are applied.
    #[must_use]
    pub fn applies(self) -> bool {
        matches!(self, Verdict::Apply | Verdict::ApplyAndPanic)
    }
}

/// A step of a relist in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begins one, which supersedes the one that is open.
    Begin,
    /// Offers a page.
    Page(Vec<Place>),
    /// Asks which objects of a page are needed, and offers those.
    Probe(Vec<Place>),
    /// Counts a key as listed.
    Keep(Place),
    /// Deletes a key, with the object.
    Delete(Place),
    /// Deletes a key whose last state is unknown.
    DeleteTombstone(Place),
    /// Commits it.
    Commit,
    /// Abandons it.
    Abandon,
}

/// One operation. Every object that one makes has a number of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Offers a new object.
    Add(Place),
    /// Offers a changed one.
    Update(Place),
    /// Offers a deletion, with the object.
    Delete(Place),
    /// Offers a deletion that nobody saw, with or without an object.
    DeleteTombstone(Place, bool),
    /// Offers several changed objects at once.
    Batch(Vec<Place>),
    /// A relist.
    Replace(Vec<Place>),
    /// A step of a relist in pieces.
    Relist(Step),
    /// The same for the relist that was begun before it, which is superseded.
    OldRelist(Step),
    /// Sync for what is known.
    Resync,
    /// Deltas as a whole. Kinds 0 to 4 are those of [`DeltaType`](deltafifo::DeltaType), 5 is a
    /// tombstone.
    AddIfNotPresent(Place, Vec<u8>),
    /// Closes the queue.
    Close,
    /// Takes a key and handles it.
    Pop(Verdict),
    /// Takes a key and holds it.
    Take,
    /// Ends one of the handlers that are held, counted round.
    End(u8, Verdict),
    /// Takes several keys; what is left of an earlier batch goes back.
    TakeBatch(u8),
    /// Holds the next key of the batch.
    Next,
    /// Gives the rest of the batch back.
    DropBatch,
}
