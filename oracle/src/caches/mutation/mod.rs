//! Compares `MutationCache` over an indexer with a map of the store's objects and a list of the
//! writes that the cache was notified of.

mod plain;

use std::sync::Arc;
use std::time::Duration;

use deltafifo::caches::{MutationCache, MutationError};
use deltafifo::{
    BoxError, DeletedFinalStateUnknown, DeltaObject, ExplicitKey, Indexer, KeyFunc, Meta,
};

use crate::ManualClock;
use plain::{Object, Plain, Refusal};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// The uids: none, and those of two objects that had the same name one after the other.
const UIDS: [&str; 3] = ["", "1", "2"];
/// The versions, of which the last three are invalid.
const VERSIONS: [&str; 16] = [
    "1",
    "2",
    "3",
    "4",
    "007",
    "8",
    "9",
    "10",
    "11",
    "12",
    "99",
    "100",
    "18446744073709551616",
    "",
    "x",
    "-1",
];
/// The nodes. The index function fails for objects on the last one.
const NODES: [&str; 3] = ["n1", "n2", "none"];
const INDEX: &str = "node";
/// The number of seconds for which a write is kept, unless it is kept forever.
const TTL: u64 = 5;

/// The settings of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Whether the cache returns writes of keys that the store does not have.
    pub include_adds: bool,
    /// Whether writes are kept forever.
    pub for_ever: bool,
    /// The largest number of kept writes.
    pub capacity: usize,
}

impl From<u8> for Setup {
    fn from(setup: u8) -> Self {
        Self {
            include_adds: setup & 1 != 0,
            for_ever: setup & 2 != 0,
            capacity: 1 + usize::from(setup >> 2) % 4,
        }
    }
}

/// An object, as positions in `NAMES`, `UIDS`, `VERSIONS` and `NODES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSpec {
    /// The position of the name; `None` for an object without a name.
    name: Option<u8>,
    uid: u8,
    version: u8,
    node: u8,
}

impl From<[u8; 3]> for ObjectSpec {
    fn from([a, version, node]: [u8; 3]) -> Self {
        Self {
            name: (a % 32 != 31).then_some(a % 4),
            uid: (a >> 5) % 3,
            version: version % 16,
            node: node % 3,
        }
    }
}

/// The argument of a deletion: the object, or a tombstone with or without the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the variants describe them")]
pub enum Last {
    Object,
    Tombstone,
    EmptyTombstone,
}

/// An operation on the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Puts this object into the store. If the flag is true, the cache is notified of it.
    Stored(ObjectSpec, bool),
    /// Removes the object of this name from the store.
    Removed(u8),
    /// Notifies the cache of a deletion.
    OnDelete(ObjectSpec, Last),
    /// Notifies the cache of a write.
    Mutation(ObjectSpec),
    /// Reads an object.
    Get(u8),
    /// Reads all objects with an index value.
    ByIndex(u8),
    /// Advances the clock by this many seconds.
    MoveOn(u8),
}

impl From<[u8; 4]> for Op {
    fn from([code, a, b, c]: [u8; 4]) -> Self {
        let spec = ObjectSpec::from([a, b, c]);
        match code % 16 {
            0..=3 => Self::Mutation(spec),
            4..=6 => Self::Stored(spec, false),
            7 => Self::Stored(spec, true),
            8 => Self::Removed(a % 4),
            9 => {
                let last = [Last::Object, Last::Tombstone, Last::Object, Last::EmptyTombstone];
                Self::OnDelete(spec, last[usize::from(c >> 6)])
            }
            10..=12 => Self::Get(a % 4),
            13 => Self::ByIndex(a % 3),
            _ => Self::MoveOn(a % 4),
        }
    }
}

/// Applies `ops` to a `MutationCache` and to the plain model of it.
///
/// # Panics
/// Panics if the two differ.
pub fn run(setup: Setup, ops: &[Op]) {
    let clock = ManualClock::default();
    let node = |object: &Object| match object.node {
        "none" => Err(BoxError::from("the object has no node")),
        node => Ok(vec![node.to_owned()]),
    };
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjectMeta))
        .index(INDEX, node)
        .build()
        .expect("one index");
    let ttl = if setup.for_ever { Duration::MAX } else { Duration::from_secs(TTL) };
    let cache = MutationCache::builder(store.reader())
        .include_adds(setup.include_adds)
        .capacity(setup.capacity)
        .ttl(ttl)
        .clock(clock.reader())
        .build();
    let mut both = Both { store, cache, clock, plain: Plain::new(setup), created: 0 };
    let reads = (0..4).map(Op::Get).chain((0..3).map(Op::ByIndex));
    for op in ops.iter().copied().chain(reads) {
        both.step(op);
    }
}

struct ObjectMeta;

impl Meta<Object> for ObjectMeta {
    fn namespace<'a>(&self, _object: &'a Object) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.name)
    }

    fn version<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.version)
    }

    fn uid<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.uid)
    }
}

fn refusal(error: MutationError) -> Refusal {
    match error {
        MutationError::Key(_) => Refusal::Key,
        MutationError::Version { .. } => Refusal::Version,
        error => panic!("{error}"),
    }
}

struct Both {
    store: Indexer<Object, ObjectMeta>,
    cache: MutationCache<Object, ObjectMeta>,
    clock: ManualClock,
    plain: Plain,
    created: u32,
}

impl Both {
    fn object(&mut self, spec: ObjectSpec) -> Arc<Object> {
        self.created += 1;
        Arc::new(Object {
            name: spec.name.map_or("", |place| NAMES[usize::from(place)]),
            uid: UIDS[usize::from(spec.uid)],
            version: VERSIONS[usize::from(spec.version)],
            node: NODES[usize::from(spec.node)],
            number: self.created,
        })
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Stored(spec, is_notified) => {
                let object = self.object(spec);
                let stored = self.store.update(object.clone());
                // The store refuses an object for which the index function fails.
                assert_eq!(
                    stored.is_ok(),
                    !object.name.is_empty() && object.node != "none",
                    "{object:?}"
                );
                if stored.is_ok() {
                    self.plain.stored.insert(object.name, object.clone());
                }
                if is_notified {
                    let done = self.cache.on_add_or_update(&object);
                    assert_eq!(done.map_err(refusal), self.plain.on_add_or_update(&object));
                }
            }
            Op::Removed(place) => {
                let name = NAMES[usize::from(place)];
                self.store.delete(ExplicitKey(name)).expect("a deletion computes no values");
                self.plain.stored.remove(name);
            }
            Op::OnDelete(spec, last) => {
                let object = self.object(spec);
                let obj = (last != Last::EmptyTombstone).then(|| object.clone());
                let done = match last {
                    Last::Object => self.cache.on_delete(&DeltaObject::from(object.clone())),
                    _ if object.name.is_empty() => return,
                    _ => self
                        .cache
                        .on_delete(&DeletedFinalStateUnknown::new(object.name, obj).into()),
                };
                let expected = if last == Last::EmptyTombstone {
                    Ok(())
                } else {
                    self.plain.on_delete(object)
                };
                assert_eq!(done.map_err(refusal), expected);
            }
            Op::Mutation(spec) => {
                let object = self.object(spec);
                assert_eq!(
                    self.cache.mutation(object.clone()).map_err(refusal),
                    self.plain.mutation(object)
                );
            }
            Op::Get(place) => {
                let name = NAMES[usize::from(place)];
                assert_eq!(self.cache.get_by_key(name).map_err(refusal), self.plain.get(name));
            }
            Op::ByIndex(place) => {
                let value = NODES[usize::from(place)];
                let found = self.cache.by_index(INDEX, value).map_err(refusal);
                assert_eq!(found.map(sorted), self.plain.by_index(value).map(sorted));
            }
            Op::MoveOn(seconds) => {
                self.plain.now += u64::from(seconds);
                self.clock.advance(Duration::from_secs(seconds.into()));
            }
        }
    }
}

fn sorted(mut objects: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
    objects.sort();
    objects
}
