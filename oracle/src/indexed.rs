//! Compares the indexer with a map that is searched from end to end. The indexer is alone, or
//! fused with a queue whose single consumer applies the deltas.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;

use deltafifo::{
    BoxError, DeltaFifo, ExplicitKey, IndexError, IndexReader, Indexer, Indexers, KeyFunc,
    NAMESPACE_INDEX, StoreError, Transaction,
};

use crate::{Bytes, Fifo, KEYS, Obj, ObjMeta, key_func, tombstone};

/// The name of an index with any number of values per object, some of them duplicates.
const BITS: &str = "bits";
/// The name of an index with one value per object.
const TENS: &str = "tens";
/// The name of an index with one value per object, which is added later.
const THIRDS: &str = "thirds";
const NAMESPACES: [&str; 4] = ["", "ns", "other-namespace", "a-key-that-is-too-long-for-the-line"];

/// Runs the operations that `bytes` encode, and compares every answer.
///
/// # Panics
/// Panics if the store and the map differ.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let Some(shape) = bytes.next() else { return };
    let mut both = Both::new(shape & 1 != 0, shape & 2 != 0);
    for number in 0.. {
        let Some(probe) = both.step(&mut bytes) else { return };
        for key in KEYS {
            assert_eq!(both.reader.get_by_key(key), both.map.get(key).cloned());
        }
        // Comparing all indexes takes most of the time of a run, so it is done at every fourth
        // step.
        if number % 4 == 3 {
            both.compare(&probe);
        }
    }
}

/// Returns the values of an object in index [`BITS`]. The function fails for some objects.
fn bits(object: &Obj) -> Result<Vec<String>, BoxError> {
    match object.n % 16 {
        13 => return Err("unlucky".into()),
        // `resume_unwind` skips the panic hook, which would end a fuzzer's run.
        14 => resume_unwind(Box::new("expected by this test")),
        _ => {}
    }
    let mut values: Vec<_> =
        (0..3).filter(|bit| object.n >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
    if object.n & 8 != 0 {
        values.extend(values.clone().into_iter().rev());
    }
    Ok(values)
}

fn tens(object: &Obj) -> String {
    (object.n / 32).to_string()
}

/// Returns the values of an object in index [`THIRDS`]. The function fails for some objects.
fn thirds(object: &Obj) -> Result<Vec<String>, BoxError> {
    if object.n % 32 == 5 { Err("unlucky".into()) } else { Ok(vec![(object.n % 3).to_string()]) }
}

/// Returns the values that the map uses for an object, or `None` if the index function fails.
fn values(index: &str, object: &Obj) -> Option<BTreeSet<String>> {
    match index {
        NAMESPACE_INDEX => Some(BTreeSet::from([object.ns.clone()])),
        TENS => Some(BTreeSet::from([tens(object)])),
        THIRDS => (object.n % 32 != 5).then(|| BTreeSet::from([(object.n % 3).to_string()])),
        _ if matches!(object.n % 16, 13 | 14) => None,
        _ => {
            Some((0..3).filter(|bit| object.n >> bit & 1 == 1).map(|bit| bit.to_string()).collect())
        }
    }
}

enum Store {
    Alone(Indexer<Obj, ObjMeta>),
    Fused(Box<Fifo>),
}

struct Both {
    store: Store,
    reader: IndexReader<Obj, ObjMeta>,
    map: BTreeMap<String, Arc<Obj>>,
    /// The indexes that exist.
    indexes: Vec<&'static str>,
    /// Whether keys omit the namespace, so that an update can move an object to another namespace.
    moves: bool,
}

impl Both {
    fn new(fused: bool, moves: bool) -> Self {
        let keys = if moves {
            KeyFunc::custom(ObjMeta, |object: &Obj| Ok(object.name.clone()))
        } else {
            key_func()
        };
        let builder =
            Indexer::builder(keys).index(BITS, bits).index(TENS, |object| Ok(vec![tens(object)]));
        let store = builder.build().expect("the names differ");
        let reader = store.reader();
        let store = if fused {
            Store::Fused(Box::new(DeltaFifo::over(store).build()))
        } else {
            Store::Alone(store)
        };
        Self {
            store,
            reader,
            map: BTreeMap::new(),
            indexes: vec![BITS, TENS, NAMESPACE_INDEX],
            moves,
        }
    }

    fn object(&self, bytes: &mut Bytes<'_>) -> Option<Arc<Obj>> {
        let (place, n) = (bytes.next()?, u64::from(bytes.next()?));
        let key = KEYS[usize::from(place) % KEYS.len()];
        let (ns, name) = match key.split_once('/') {
            _ if self.moves => {
                (NAMESPACES[usize::from(place) / KEYS.len() % NAMESPACES.len()], key)
            }
            Some((ns, name)) => (ns, name),
            None => ("", key),
        };
        Some(Arc::new(Obj { ns: ns.to_owned(), name: name.to_owned(), version: String::new(), n }))
    }

    fn key(&self, object: &Obj) -> String {
        let Obj { ns, name, .. } = object;
        if self.moves || ns.is_empty() { name.clone() } else { format!("{ns}/{name}") }
    }

    /// Runs one operation, and returns an object whose index values are to be compared.
    fn step(&mut self, bytes: &mut Bytes<'_>) -> Option<Arc<Obj>> {
        let kind = bytes.next()? % 10;
        let object = self.object(bytes)?;
        let key = self.key(&object);
        match kind {
            0..=2 => {
                let indexed = match &self.store {
                    Store::Alone(store) if kind == 0 => store.add(object.clone()),
                    Store::Alone(store) => store.update(object.clone()),
                    Store::Fused(fifo) => fifo
                        .add(object.clone())
                        .map_err(|_| unreachable!())
                        .and_then(|()| drain(fifo)),
                };
                self.check_indexed(&indexed, [&object]);
                if self.counts(&indexed) {
                    self.map.insert(key, object.clone());
                }
            }
            3..=5 => {
                let deleted = match (&self.store, kind) {
                    (Store::Alone(store), 3) => store.delete(&*object),
                    (Store::Alone(store), 4) => store.delete(ExplicitKey(&key)),
                    (Store::Alone(store), _) => store.delete(&tombstone(&key, None)),
                    (Store::Fused(fifo), _) => fifo
                        .delete(object.clone())
                        .map_err(|_| unreachable!())
                        .and_then(|()| drain(fifo)),
                };
                assert!(
                    deleted.is_ok(),
                    "a deletion computes the values of the stored object and adds none"
                );
                self.map.remove(&key);
            }
            6 => {
                let count = usize::from(bytes.next()?) % 6;
                let list: Vec<_> = (0..count).map(|_| self.object(bytes)).collect::<Option<_>>()?;
                let indexed = match &self.store {
                    Store::Alone(store) => store.replace(list.clone()),
                    Store::Fused(fifo) => {
                        fifo.replace(list.clone(), "1").expect("all have names");
                        drain(fifo)
                    }
                };
                self.check_indexed(&indexed, &list);
                if !self.counts(&indexed) {
                    return Some(object);
                }
                self.map = list.into_iter().map(|object| (self.key(&object), object)).collect();
            }
            7 => self.transaction(&object),
            8 => self.add_indexers(),
            _ => {}
        }
        Some(object)
    }

    /// Runs one transaction that adds an object, deletes it, and replaces it with another one.
    fn transaction(&mut self, object: &Arc<Obj>) {
        let Store::Alone(store) = &self.store else { return };
        let (ns, name) = (object.ns.clone(), object.name.clone());
        let next = Arc::new(Obj { ns, name, version: String::new(), n: object.n + 1 });
        let changes = [
            Transaction::Add(object.clone()),
            Transaction::Delete(object.clone().into()),
            Transaction::Update(next.clone()),
        ];
        let failed = store.transaction(changes).err().map_or_else(Vec::new, |error| error.failed);
        let refused = |number| failed.iter().any(|(failed, _)| *failed == number);
        assert_eq!(refused(0), !self.is_indexable(object));
        assert!(!refused(1), "a deletion does not fail");
        assert_eq!(refused(2), !self.is_indexable(&next));
        let key = self.key(object);
        if refused(2) {
            self.map.remove(&key)
        } else {
            self.map.insert(key, next)
        };
    }

    fn add_indexers(&mut self) {
        let added = self.reader.add_indexers(Indexers::new().index(THIRDS, thirds));
        if self.indexes.contains(&THIRDS) {
            assert!(matches!(added, Err(IndexError::Conflict(name)) if name == THIRDS));
        } else if self.map.values().any(|object| values(THIRDS, object).is_none()) {
            assert!(matches!(added, Err(IndexError::Build { index, .. }) if index == THIRDS));
            assert!(matches!(self.reader.by_index(THIRDS, "0"), Err(IndexError::Unknown(_))));
        } else {
            added.expect("the function accepts every stored object");
            self.indexes.push(THIRDS);
        }
    }

    fn is_indexable(&self, object: &Obj) -> bool {
        self.indexes.iter().all(|index| values(index, object).is_some())
    }

    /// Checks the result of a write of the objects `new`: it must be the error of an index
    /// function if one fails for one of the objects, and success otherwise.
    fn check_indexed<'a>(
        &self,
        indexed: &Result<(), StoreError>,
        new: impl IntoIterator<Item = &'a Arc<Obj>>,
    ) {
        let is_indexable = new.into_iter().all(|object| self.is_indexable(object));
        match indexed {
            Ok(()) => assert!(is_indexable, "an index function failed without a report"),
            Err(StoreError::Index { index, .. } | StoreError::NotIndexed { index, .. }) => {
                assert!([BITS, THIRDS].contains(&index.as_str()) && !is_indexable);
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns whether a written object is stored. A store without a queue refuses an object for
    /// which an index function fails; a store that is fused with a queue stores it.
    fn counts(&self, written: &Result<(), StoreError>) -> bool {
        written.is_ok() || matches!(self.store, Store::Fused(_))
    }

    fn compare(&self, probe: &Obj) {
        let (reader, map) = (&self.reader, &self.map);
        assert_eq!((reader.len(), reader.is_empty()), (map.len(), map.is_empty()));
        let mut keys = reader.list_keys();
        keys.sort();
        assert!(keys.iter().eq(map.keys()), "{keys:?}");
        assert_eq!(sorted(reader.list()), sorted(map.values().cloned().collect()));
        let mut visited = Vec::new();
        reader.for_each(|object| visited.push(object.clone()));
        assert_eq!(sorted(visited), sorted(map.values().cloned().collect()));
        for &index in &self.indexes {
            let mut by_value = BTreeMap::<String, Vec<(&String, &Arc<Obj>)>>::new();
            for (key, object) in map {
                for value in values(index, object).into_iter().flatten() {
                    by_value.entry(value).or_default().push((key, object));
                }
            }
            let known = reader.list_index_func_values(index).expect("there is such an index");
            assert!(
                known.iter().eq(by_value.keys()),
                "{index}: {known:?}, not {:?}",
                by_value.keys()
            );
            for (value, entries) in &by_value {
                let keys = reader.index_keys(index, value).expect("there is such an index");
                assert!(
                    keys.iter().eq(entries.iter().map(|(key, _)| *key)),
                    "{index} {value}: {keys:?}"
                );
                let objects = sorted(entries.iter().map(|(_, object)| (*object).clone()).collect());
                assert_eq!(
                    sorted(reader.by_index(index, value).expect("there is such an index")),
                    objects
                );
            }
            assert!(
                reader.by_index(index, "no such value").is_ok_and(|objects| objects.is_empty())
            );
            match (reader.index(index, probe), values(index, probe)) {
                (Ok(objects), Some(probe)) => {
                    let shares = |object: &&Arc<Obj>| {
                        values(index, object).is_some_and(|values| !values.is_disjoint(&probe))
                    };
                    assert_eq!(
                        sorted(objects),
                        sorted(map.values().filter(shares).cloned().collect())
                    );
                }
                (Err(IndexError::Function { .. }), None) => {}
                (answer, values) => panic!("{answer:?}, and the values are {values:?}"),
            }
        }
        assert!(matches!(reader.by_index("no such index", ""), Err(IndexError::Unknown(_))));
    }
}

/// Applies all pending items. Returns the first error of an index function.
fn drain(fifo: &Fifo) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    while let Some(mut item) = fifo.try_pop() {
        outcome = outcome.and(item.apply(|_| ()));
    }
    outcome
}

fn sorted(mut objects: Vec<Arc<Obj>>) -> Vec<Arc<Obj>> {
    objects.sort_by(|a, b| (&a.ns, &a.name, a.n).cmp(&(&b.ns, &b.name, b.n)));
    objects
}
