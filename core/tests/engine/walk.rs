//! Tests of a walk that its caller advances step by step while the store changes. The walk is
//! compared with the set of keys that were stored all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltafifo::{IndexReader, Indexer, KeyFunc, NoMeta, WalkPosition};
use proptest::prelude::*;

type Object = (u16, usize);

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Writes consecutive keys: the first key, and the number of keys. A large number makes the
    /// table grow.
    Write(u16, u16),
    Delete(u16, u16),
    Step(usize),
}

const KEYS: u16 = if cfg!(miri) { 60 } else { 4_000 };

fn op() -> impl Strategy<Value = Op> {
    let (first, some) = (0..KEYS, prop_oneof![4 => 1..10_u16, 1 => 1..KEYS]);
    prop_oneof![
        2 => (first.clone(), some.clone()).prop_map(|(first, some)| Op::Write(first, some)),
        1 => (first, some).prop_map(|(first, some)| Op::Delete(first, some)),
        4 => (1..200_usize).prop_map(Op::Step),
    ]
}

fn keys(first: u16, some: u16) -> impl Iterator<Item = u16> {
    first..first.saturating_add(some).min(KEYS)
}

struct World {
    store: Indexer<Object, NoMeta>,
    reader: IndexReader<Object, NoMeta>,
    stored: BTreeMap<u16, usize>,
    /// The keys that were stored when the walk began and have not been deleted since.
    stayed: BTreeSet<u16>,
    visited: BTreeSet<u16>,
    /// The keys for which `IndexReader::has_walked` has returned true: the walk has passed their
    /// places.
    walked: BTreeSet<u16>,
    at: Option<WalkPosition>,
    writes: usize,
}

impl World {
    fn new(stored: BTreeSet<u16>) -> Self {
        let store =
            Indexer::builder(KeyFunc::custom(NoMeta, |object: &Object| Ok(object.0.to_string())))
                .build();
        let store = store.unwrap();
        for key in &stored {
            store.add(Arc::new((*key, 0))).unwrap();
        }
        Self {
            reader: store.reader(),
            store,
            stored: stored.iter().map(|key| (*key, 0)).collect(),
            stayed: stored,
            visited: BTreeSet::new(),
            walked: BTreeSet::new(),
            at: Some(WalkPosition::default()),
            writes: 0,
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Write(first, some) => {
                for key in keys(first, some) {
                    self.writes += 1;
                    self.store.add(Arc::new((key, self.writes))).unwrap();
                    self.stored.insert(key, self.writes);
                }
            }
            Op::Delete(first, some) => {
                for key in keys(first, some) {
                    self.store.delete(&(key, 0)).unwrap();
                    self.stored.remove(&key);
                    self.stayed.remove(&key);
                }
            }
            Op::Step(most) => self.step(most),
        }
        self.check();
    }

    fn step(&mut self, most: usize) {
        let Some(from) = self.at else { return };
        let step = self.reader.walk(from, most);
        for (key, object) in step.objects {
            assert_eq!(
                (&*key, object.1),
                (&*object.0.to_string(), self.stored[&object.0]),
                "not the stored object"
            );
            let is_ahead = !self.reader.has_walked(from, &key);
            assert!(is_ahead, "{key} is visited after it was reported as passed");
            let is_by = step.next.is_none_or(|next| self.reader.has_walked(next, &key));
            assert!(is_by, "{key} was visited and is reported as ahead");
            assert!(
                self.visited.insert(object.0) || !self.stayed.contains(&object.0),
                "{key} is visited twice"
            );
        }
        self.at = step.next;
    }

    /// Compares, for every key, stored or not, the result of `has_walked` with the progress of the
    /// walk. A passed key stays passed.
    fn check(&mut self) {
        for key in 0..KEYS {
            let has_walked = self.at.is_none_or(|at| self.reader.has_walked(at, &key.to_string()));
            if has_walked {
                self.walked.insert(key);
            }
            assert_eq!(
                has_walked,
                self.walked.contains(&key),
                "{key} was passed and is reported as ahead"
            );
            if self.stayed.contains(&key) {
                assert_eq!(has_walked, self.visited.contains(&key), "{key} stayed");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, ..ProptestConfig::default() })]
    #[test]
    fn keys_stored_throughout_are_walked_once_and_their_side_is_known(
        stored in prop::collection::btree_set(0..KEYS, 0..usize::from(KEYS) / 2),
        ops in prop::collection::vec(op(), 0..30),
    ) {
        let mut world = World::new(stored);
        for op in ops {
            world.run(op);
        }
        while world.at.is_some() {
            world.run(Op::Step(97));
        }
        assert!(world.stayed.is_subset(&world.visited));
    }
}
