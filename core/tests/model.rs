//! Random operations on a few keys, against client-go's `DeltaFIFO` written plainly: every answer compared after each
//! step, and the store at the end.

mod common;

use common::model::{self, MDelta, Model};
use common::{MODES, Mode, Obj, Rig, deltas, nameless, obj, show, show_one, tombstone};
use deltafifo::{Delta, DeltaType, Deltas};
use proptest::collection::vec;
use proptest::prelude::*;

const KEYS: [&str; 4] = ["a", "b", "ns/c", "a-key-that-is-too-long-for-the-line/of-its-slot"];

/// The place in `KEYS`; one more is an object without a name.
type Key = usize;

fn key(key: Key) -> Option<&'static str> {
    KEYS.get(key).copied()
}

fn object(place: Key, n: u64) -> std::sync::Arc<Obj> {
    key(place).map_or_else(nameless, |key| obj(key, n))
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Done,
    Apply,
    Fail,
    FailAndRetry,
    Panic,
    Requeue,
    Drop,
}

#[derive(Clone, Debug)]
enum Op {
    Add(Key),
    Update(Key),
    Delete(Key),
    DeleteTombstone(Key, bool),
    Batch(Vec<Key>),
    Replace(Vec<Key>),
    Pages(Vec<Vec<Key>>, bool),
    Resync,
    AddIfNotPresent(Key, Vec<u8>),
    Pop(Verdict),
    PopBatch(usize, usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let sound = 0..KEYS.len();
    // Now and then an object without a name.
    let perhaps = prop_oneof![12 => 0..KEYS.len(), 1 => Just(KEYS.len())];
    let verdict = prop_oneof![
        8 => Just(Verdict::Apply),
        2 => Just(Verdict::Done),
        1 => Just(Verdict::Fail),
        1 => Just(Verdict::FailAndRetry),
        1 => Just(Verdict::Panic),
        2 => Just(Verdict::Requeue),
        2 => Just(Verdict::Drop),
    ];
    let op = prop_oneof![
        3 => perhaps.clone().prop_map(Op::Add),
        4 => perhaps.clone().prop_map(Op::Update),
        3 => perhaps.clone().prop_map(Op::Delete),
        3 => (sound.clone(), any::<bool>()).prop_map(|(key, with)| Op::DeleteTombstone(key, with)),
        1 => vec(perhaps.clone(), 0..4).prop_map(Op::Batch),
        3 => vec(perhaps.clone(), 0..5).prop_map(Op::Replace),
        1 => (vec(vec(perhaps, 0..3), 0..3), any::<bool>()).prop_map(|(pages, commit)| Op::Pages(pages, commit)),
        2 => Just(Op::Resync),
        2 => (sound, vec(0..6_u8, 1..4)).prop_map(|(key, kinds)| Op::AddIfNotPresent(key, kinds)),
        9 => verdict.prop_map(Op::Pop),
        1 => (1..5_usize, 0..5_usize).prop_map(|(take, handle)| Op::PopBatch(take, handle)),
    ];
    vec(op, 1..if cfg!(miri) { 15 } else { 60 })
}

/// A list for the model: an object without a name has no key.
type Listed = Vec<(Option<&'static str>, u64)>;

/// The queue and the model side by side.
struct Pair {
    rig: Rig,
    model: Model,
    /// The number of the last object.
    n: u64,
}

impl Pair {
    fn new(mode: Mode, emit_replaced: bool, threads: usize, known: bool) -> Self {
        let objects: Vec<_> = if known { KEYS[1..3].iter().map(|key| obj(key, 0)).collect() } else { Vec::new() };
        let rig = Rig::knowing(mode, &objects, |builder| builder.emit_replaced(emit_replaced).relist_threads(threads));
        let mut model = Model { knows: mode != Mode::Nowhere, emit_replaced, ..Model::default() };
        if model.knows && known {
            model.known.extend(KEYS[1..3].iter().map(|key| ((*key).to_owned(), 0)));
        }
        Self { rig, model, n: 0 }
    }

    fn next(&mut self) -> u64 {
        self.n += 1;
        self.n
    }

    /// A list of objects, and the same for the model.
    fn list(&mut self, places: &[Key]) -> (Vec<std::sync::Arc<Obj>>, Listed) {
        let numbered: Vec<_> = places.iter().map(|&place| (place, self.next())).collect();
        let objects = numbered.iter().map(|&(place, n)| object(place, n)).collect();
        (objects, numbered.into_iter().map(|(place, n)| (key(place), n)).collect())
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Add(place) | Op::Update(place) => {
                let n = self.next();
                let fifo = &self.rig.fifo;
                let (kind, offered) = match op {
                    Op::Add(_) => ('A', fifo.add(object(*place, n))),
                    _ => ('U', fifo.update(object(*place, n))),
                };
                assert_eq!(offered.is_ok(), key(*place).is_some());
                self.model.offer(kind, key(*place), n);
            }
            Op::Delete(place) => {
                let n = self.next();
                assert_eq!(self.rig.fifo.delete(object(*place, n)).is_ok(), key(*place).is_some());
                self.model.delete(key(*place), MDelta::object('D', n));
            }
            Op::DeleteTombstone(place, with) => {
                let n = self.next();
                self.rig.fifo.delete(tombstone(KEYS[*place], with.then(|| obj(KEYS[*place], n)))).unwrap();
                self.model.delete(key(*place), MDelta::tombstone(with.then_some(n)));
            }
            Op::Batch(places) => {
                let (objects, list) = self.list(places);
                let offered = self.rig.fifo.update_batch(objects);
                self.model.offer('U', None, 0);
                let sound = list.iter().map_while(|(key, n)| key.map(|key| (key, *n)));
                assert_eq!(offered.is_ok(), sound.clone().count() == list.len());
                sound.for_each(|(key, n)| self.model.offer('U', Some(key), n));
            }
            Op::Replace(places) => {
                let (objects, list) = self.list(places);
                let committed = self.rig.fifo.replace(objects, "1").ok();
                assert_eq!(committed.map(|committed| committed.deleted), self.model.replace(&list));
            }
            Op::Pages(pages, commit) => self.pages(pages, *commit),
            Op::Resync => {
                self.rig.fifo.resync();
                self.model.resync();
            }
            Op::AddIfNotPresent(place, kinds) => {
                let numbered: Vec<_> = kinds.iter().map(|kind| (*kind, self.next())).collect();
                let offered: Deltas<Obj> =
                    numbered.iter().map(|&(kind, n)| real_delta(KEYS[*place], kind, n)).collect();
                self.rig.fifo.add_if_not_present(offered).unwrap();
                let offered = numbered.iter().map(|&(kind, n)| model_delta(kind, n)).collect();
                self.model.add_if_not_present(KEYS[*place], offered);
            }
            Op::Pop(verdict) => self.pop(*verdict),
            Op::PopBatch(take, handle) => {
                let Some(mut batch) = self.rig.fifo.try_pop_batch(*take) else {
                    return assert!(self.model.items.is_empty());
                };
                assert_eq!(batch.len(), self.model.items.len().min(*take));
                for _ in 0..*handle {
                    let Some(mut guard) = batch.next() else { break };
                    let popped = self.model.pop().unwrap();
                    assert_eq!((guard.key(), show(guard.deltas())), (&*popped.key, model::show(&popped.deltas)));
                    assert_eq!(guard.is_in_initial_list(), popped.is_initial);
                    self.rig.apply(&mut guard);
                    guard.done();
                    self.model.apply(&popped);
                }
            }
        }
    }

    fn pages(&mut self, pages: &[Vec<Key>], commit: bool) {
        let mut sound = Vec::new();
        let lists: Vec<_> = pages.iter().map(|page| self.list(page)).collect();
        let fifo = self.rig.fifo.clone();
        let mut relist = fifo.begin_replace();
        for (objects, list) in lists {
            let refused: Vec<_> = relist.offer(objects).unwrap().into_iter().map(|refused| refused.index).collect();
            let nameless: Vec<_> = (0..list.len()).filter(|&index| list[index].0.is_none()).collect();
            assert_eq!(refused, nameless);
            sound.extend(list.into_iter().filter(|(key, _)| key.is_some()));
        }
        if commit {
            assert_eq!(Some(relist.commit("2").unwrap().deleted), self.model.replace(&sound));
        } else {
            relist.abandon();
            self.model.queue_list(&sound);
        }
    }

    fn pop(&mut self, verdict: Verdict) {
        let Some(popped) = self.model.pop() else {
            return assert!(self.rig.fifo.try_pop().is_none());
        };
        let (rig, model) = (&self.rig, &mut self.model);
        let check = |guard: &common::Guard<'_>| {
            assert_eq!((guard.key(), show(guard.deltas())), (&*popped.key, model::show(&popped.deltas)));
            assert_eq!(guard.is_in_initial_list(), popped.is_initial);
        };
        match verdict {
            Verdict::Done | Verdict::Apply | Verdict::Requeue | Verdict::Drop => {
                let mut guard = rig.fifo.try_pop().unwrap();
                check(&guard);
                match verdict {
                    Verdict::Done => guard.done(),
                    Verdict::Requeue => guard.requeue(),
                    Verdict::Drop => drop(guard),
                    _ => {
                        rig.apply(&mut guard);
                        model.apply(&popped);
                        guard.done();
                    }
                }
            }
            Verdict::Fail | Verdict::FailAndRetry | Verdict::Panic => {
                let failed = rig.fifo.process(|guard| {
                    check(guard);
                    if matches!(verdict, Verdict::FailAndRetry) {
                        guard.retry();
                    }
                    // Without the hook of a real panic, whose reports would fill the output.
                    if matches!(verdict, Verdict::Panic) {
                        std::panic::resume_unwind(Box::new("expected by this test"));
                    }
                    Err::<(), _>("no")
                });
                let message = failed.unwrap_err().to_string();
                assert!(message.contains(&popped.key) && !message.contains("assertion"), "{message}");
            }
        }
        if matches!(verdict, Verdict::Requeue | Verdict::Drop | Verdict::FailAndRetry) {
            model.put_back(&popped.key, popped.deltas);
        }
    }

    fn compare(&self) {
        let (rig, model) = (&self.rig, &self.model);
        assert_eq!(rig.fifo.has_synced(), model.has_synced());
        for key in KEYS {
            assert_eq!(rig.pending(key), model.items.get(key).map(|deltas| model::show(deltas)), "get {key}");
        }
        let mut keys = rig.fifo.list_keys();
        keys.sort();
        assert_eq!(keys, model.items.keys().cloned().collect::<Vec<_>>());
        let mut newest: Vec<_> = rig.fifo.list().iter().map(show_one).collect();
        newest.sort();
        let mut expected: Vec<_> = model.items.values().map(|deltas| deltas.last().unwrap().show()).collect();
        expected.sort();
        assert_eq!(newest, expected);
        if model.knows {
            let mut known: Vec<_> = model.known.iter().map(|(key, n)| format!("{key}={n}")).collect();
            known.sort();
            assert_eq!(rig.stored(), known);
        }
    }

    fn finish(mut self) {
        while !self.model.items.is_empty() {
            self.pop(Verdict::Apply);
            self.compare();
        }
        assert!(self.rig.fifo.try_pop().is_none());
        assert_eq!(self.rig.fifo.pending_deltas(), 0);
        if self.rig.mode == Mode::Fused {
            assert_eq!(self.rig.fifo.store().len(), self.model.known.len());
        }
    }
}

const KINDS: [(DeltaType, char); 5] = [
    (DeltaType::Added, 'A'),
    (DeltaType::Updated, 'U'),
    (DeltaType::Deleted, 'D'),
    (DeltaType::Replaced, 'R'),
    (DeltaType::Sync, 'S'),
];

/// A delta as a user may give it; kind 5 is a tombstone.
fn real_delta(key: &str, kind: u8, n: u64) -> Delta<Obj> {
    match KINDS.get(usize::from(kind)) {
        Some((kind, _)) => deltas([(*kind, obj(key, n))]).into_iter().next().unwrap(),
        None => Delta::new(DeltaType::Deleted, tombstone(key, Some(obj(key, n)))),
    }
}

fn model_delta(kind: u8, n: u64) -> MDelta {
    KINDS.get(usize::from(kind)).map_or(MDelta::tombstone(Some(n)), |(_, kind)| MDelta::object(*kind, n))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 5 } else { ProptestConfig::default().cases },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_answer_equals_client_gos(
        ops in ops(),
        emit_replaced in prop::bool::weighted(0.8),
        threads in 1..3_usize,
        known in any::<bool>(),
    ) {
        for mode in MODES {
            let mut pair = Pair::new(mode, emit_replaced, threads, known);
            for op in &ops {
                pair.step(op);
                pair.compare();
            }
            pair.finish();
        }
    }
}
