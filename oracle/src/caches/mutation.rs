//! `MutationCache` over an indexer, beside a map and a list of own writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{
    BoxError, DeletedFinalStateUnknown, DeltaObject, ExplicitKey, Indexer, KeyFunc, Meta, MutationCache, MutationError,
};

use crate::Hands;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// None, and two objects that had the name one after the other.
const UIDS: [&str; 3] = ["", "1", "2"];
/// The last three are no versions.
const VERSIONS: [&str; 16] =
    ["1", "2", "3", "4", "007", "8", "9", "10", "11", "12", "99", "100", "18446744073709551616", "", "x", "-1"];
/// Whoever is on the last one has no value that can be told.
const NODES: [&str; 3] = ["n1", "n2", "none"];
const INDEX: &str = "node";
/// How long a write is kept, where not for ever.
const TTL: u64 = 5;

/// How the cache is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Whether a write counts whose key the store does not have.
    pub include_adds: bool,
    /// Whether writes are kept for ever.
    pub for_ever: bool,
    /// How many of them.
    pub capacity: usize,
}

impl From<u8> for Setup {
    fn from(setup: u8) -> Self {
        Self { include_adds: setup & 1 != 0, for_ever: setup & 2 != 0, capacity: 1 + usize::from(setup >> 2) % 4 }
    }
}

/// What an object is made of: places in the lists above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelled {
    /// `None`: an object without a name.
    name: Option<u8>,
    uid: u8,
    version: u8,
    node: u8,
}

impl From<[u8; 3]> for Spelled {
    fn from([a, version, node]: [u8; 3]) -> Self {
        Self { name: (a % 32 != 31).then_some(a % 4), uid: (a >> 5) % 3, version: version % 16, node: node % 3 }
    }
}

/// What a deletion is told with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Last {
    Object,
    Tombstone,
    EmptyTombstone,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The store has this; the cache is told of it, or not.
    Stored(Spelled, bool),
    /// The store has that name no more.
    Removed(u8),
    /// The cache is told of a deletion.
    OnDelete(Spelled, Last),
    /// The cache is told of a write.
    Mutation(Spelled),
    /// Reads one.
    Get(u8),
    /// Reads all with a value.
    ByIndex(u8),
    /// So many seconds pass.
    MoveOn(u8),
}

impl From<[u8; 4]> for Op {
    fn from([what, a, b, c]: [u8; 4]) -> Self {
        let spelled = Spelled::from([a, b, c]);
        match what % 16 {
            0..=3 => Self::Mutation(spelled),
            4..=6 => Self::Stored(spelled, false),
            7 => Self::Stored(spelled, true),
            8 => Self::Removed(a % 4),
            9 => {
                let last = [Last::Object, Last::Tombstone, Last::Object, Last::EmptyTombstone];
                Self::OnDelete(spelled, last[usize::from(c >> 6)])
            }
            10..=12 => Self::Get(a % 4),
            13 => Self::ByIndex(a % 3),
            _ => Self::MoveOn(a % 4),
        }
    }
}

/// Does `ops` to a cache and to the plain one.
///
/// # Panics
/// When the two differ.
pub fn run(setup: Setup, ops: &[Op]) {
    let hands = Hands::default();
    let node = |object: &Object| match object.node {
        "none" => Err(BoxError::from("it has no node")),
        node => Ok(vec![node.to_owned()]),
    };
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjectMeta)).index(INDEX, node).build().expect("one index");
    let ttl = if setup.for_ever { Duration::MAX } else { Duration::from_secs(TTL) };
    let cache = MutationCache::builder(store.reader())
        .include_adds(setup.include_adds)
        .capacity(setup.capacity)
        .ttl(ttl)
        .clock(hands.clock())
        .build();
    let mut both = Both { store, cache, hands, plain: Plain::new(setup), made: 0 };
    let reads = (0..4).map(Op::Get).chain((0..3).map(Op::ByIndex));
    for op in ops.iter().copied().chain(reads) {
        both.step(op);
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    name: &'static str,
    uid: &'static str,
    version: &'static str,
    node: &'static str,
    /// No other one has it.
    number: u32,
}

impl Object {
    fn version(&self) -> Result<u128, Refusal> {
        self.version.parse().map_err(|_| Refusal::Version)
    }

    fn key(&self) -> Result<&'static str, Refusal> {
        if self.name.is_empty() { Err(Refusal::Key) } else { Ok(self.name) }
    }

    /// Whether both are states of one object.
    fn is_same(&self, other: &Self) -> bool {
        !self.uid.is_empty() && self.uid == other.uid
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

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Key,
    Version,
}

fn refusal(error: MutationError) -> Refusal {
    match error {
        MutationError::Key(_) => Refusal::Key,
        MutationError::Version { .. } => Refusal::Version,
        error => panic!("{error}"),
    }
}

/// What is known of a name beside the store: a write, or that this very object was deleted.
#[derive(Clone)]
struct Known {
    object: Arc<Object>,
    version: u128,
    is_gone: bool,
    /// When it was told.
    since: u64,
}

struct Plain {
    setup: Setup,
    stored: BTreeMap<&'static str, Arc<Object>>,
    /// Whatever was asked for last is last.
    known: Vec<Known>,
    now: u64,
}

impl Plain {
    fn new(setup: Setup) -> Self {
        Self { setup, stored: BTreeMap::new(), known: Vec::new(), now: 0 }
    }

    fn is_over(&self, known: &Known) -> bool {
        !self.setup.for_ever && self.now - known.since > TTL
    }

    fn forget(&mut self, name: &str) {
        self.known.retain(|known| known.object.name != name);
    }

    /// What is known of a name, which is asked for by that.
    fn ask(&mut self, name: &str) -> Option<Known> {
        let place = self.known.iter().position(|known| known.object.name == name)?;
        let known = self.known.remove(place);
        if self.is_over(&known) {
            return None;
        }
        self.known.push(known.clone());
        Some(known)
    }

    fn note(&mut self, object: Arc<Object>, version: u128, is_gone: bool) {
        self.forget(object.name);
        if self.known.len() == self.setup.capacity {
            self.known.remove(0);
        }
        self.known.push(Known { object, version, is_gone, since: self.now });
    }

    fn mutation(&mut self, object: Arc<Object>) -> Result<(), Refusal> {
        let (name, version) = (object.key()?, object.version()?);
        let counts = match self.ask(name) {
            None => true,
            // A deletion ends all writes of that object, and those of another one that are no newer.
            Some(known) if known.is_gone => version > known.version && !object.is_same(&known.object),
            Some(known) => version >= known.version,
        };
        if counts {
            self.note(object, version, false);
        }
        Ok(())
    }

    fn on_add_or_update(&mut self, object: &Object) -> Result<(), Refusal> {
        let name = object.key()?;
        if let Some(known) = self.ask(name)
            && object.version()? >= known.version
        {
            self.forget(name);
        }
        Ok(())
    }

    fn on_delete(&mut self, object: Arc<Object>) -> Result<(), Refusal> {
        let (name, version) = (object.key()?, object.version()?);
        if self.ask(name).is_none_or(|known| version >= known.version || object.is_same(&known.object)) {
            self.note(object, version, true);
        }
        Ok(())
    }

    fn get(&mut self, name: &str) -> Result<Option<Arc<Object>>, Refusal> {
        match self.ask(name) {
            Some(known) => self.newer(&known),
            None => Ok(self.stored.get(name).cloned()),
        }
    }

    /// The store's object or the one known, which is forgotten if it is not the newer one.
    fn newer(&mut self, known: &Known) -> Result<Option<Arc<Object>>, Refusal> {
        let written = (!known.is_gone).then(|| known.object.clone());
        let Some(stored) = self.stored.get(known.object.name).cloned() else {
            return Ok(written.filter(|_| self.setup.include_adds));
        };
        if stored.version()? >= known.version {
            self.forget(stored.name);
            return Ok(Some(stored));
        }
        Ok(Some(written.unwrap_or(stored)))
    }

    fn by_index(&mut self, value: &str) -> Result<Vec<Arc<Object>>, Refusal> {
        let mut all = self.stored.clone();
        for known in self.known.clone() {
            if self.is_over(&known) || known.is_gone {
                continue;
            }
            if let Some(object) = self.newer(&known)? {
                all.insert(object.name, object);
            }
        }
        Ok(all.into_values().filter(|object| object.node == value && value != "none").collect())
    }
}

struct Both {
    store: Indexer<Object, ObjectMeta>,
    cache: MutationCache<Object, ObjectMeta>,
    hands: Hands,
    plain: Plain,
    made: u32,
}

impl Both {
    fn object(&mut self, spelled: Spelled) -> Arc<Object> {
        self.made += 1;
        Arc::new(Object {
            name: spelled.name.map_or("", |place| NAMES[usize::from(place)]),
            uid: UIDS[usize::from(spelled.uid)],
            version: VERSIONS[usize::from(spelled.version)],
            node: NODES[usize::from(spelled.node)],
            number: self.made,
        })
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Stored(spelled, told) => {
                let object = self.object(spelled);
                let stored = self.store.update(object.clone());
                assert_eq!(stored.is_ok(), !object.name.is_empty() && object.node != "none", "{object:?}");
                if !object.name.is_empty() {
                    self.plain.stored.insert(object.name, object.clone());
                }
                if told {
                    let done = self.cache.on_add_or_update(&object);
                    assert_eq!(done.map_err(refusal), self.plain.on_add_or_update(&object));
                }
            }
            Op::Removed(place) => {
                let name = NAMES[usize::from(place)];
                self.store.delete(ExplicitKey(name)).expect("no value is asked for");
                self.plain.stored.remove(name);
            }
            Op::OnDelete(spelled, last) => {
                let object = self.object(spelled);
                let obj = (last != Last::EmptyTombstone).then(|| object.clone());
                let done = match last {
                    Last::Object => self.cache.on_delete(&DeltaObject::from(object.clone())),
                    _ if object.name.is_empty() => return,
                    _ => self.cache.on_delete(&DeletedFinalStateUnknown { key: object.name.into(), obj }.into()),
                };
                let expected = if last == Last::EmptyTombstone { Ok(()) } else { self.plain.on_delete(object) };
                assert_eq!(done.map_err(refusal), expected);
            }
            Op::Mutation(spelled) => {
                let object = self.object(spelled);
                assert_eq!(self.cache.mutation(object.clone()).map_err(refusal), self.plain.mutation(object));
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
                self.hands.move_on(Duration::from_secs(seconds.into()));
            }
        }
    }
}

fn sorted(mut objects: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
    objects.sort();
    objects
}
