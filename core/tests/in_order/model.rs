//! Random operations on one thread, compared with a plain log and a map.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{Obj, ObjMeta, nameless, obj, tombstone, versioned};
use crate::rig::{Fifo, picky, show_change, show_turn, stored};
use deltafifo::{ProcessError, Turn};
use deltafifo_oracle::strategy::config;

type Taken<'f> = Turn<'f, Obj, ObjMeta>;

const MOST: usize = if cfg!(miri) { 15 } else { 60 };

/// One of a few keys.
type Key = u8;

fn name(key: Key) -> String {
    format!("k{key}")
}

#[derive(Clone, Debug)]
enum Op {
    Add(Key),
    Update(Key),
    Delete(Key),
    DeleteTombstone(Key),
    Replace(Vec<Key>),
    /// A list in which one object has no key.
    ReplaceRefused(Vec<Key>),
    /// A list in which each key has an object, an object that the transformer refuses, or none,
    /// and which has one object without a key.
    ReplaceKeeping(Vec<(Key, Listed)>),
    Refused,
    Resync,
    /// A batch of at most this many events, some of which are handled. The rest is given back.
    Pop(usize, Vec<End>),
    /// A batch handled by `process_batch`, with handlers that end like this.
    Process(usize, Vec<End>),
}

/// The content of a keeping list for one key.
#[derive(Clone, Copy, Debug)]
enum Listed {
    Object,
    Refused,
    Kept,
}

/// The end of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Applies,
    Passes,
    Fails,
    Panics,
    /// When it is notified of this change.
    PanicsAt(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..5_u8;
    let listed =
        prop_oneof![2 => Just(Listed::Object), 1 => Just(Listed::Refused), 2 => Just(Listed::Kept)];
    let end = prop_oneof![
        6 => Just(End::Applies),
        1 => Just(End::Passes),
        1 => Just(End::Fails),
        1 => Just(End::Panics),
        2 => (0..3_usize).prop_map(End::PanicsAt),
    ];
    prop_oneof![
        2 => key().prop_map(Op::Add),
        4 => key().prop_map(Op::Update),
        3 => key().prop_map(Op::Delete),
        1 => key().prop_map(Op::DeleteTombstone),
        3 => vec(key(), 0..5).prop_map(Op::Replace),
        1 => vec(key(), 0..3).prop_map(Op::ReplaceRefused),
        3 => vec((key(), listed), 0..6).prop_map(Op::ReplaceKeeping),
        1 => Just(Op::Refused),
        1 => Just(Op::Resync),
        4 => (0..4_usize, vec(end.clone(), 0..4)).prop_map(|(max, ends)| Op::Pop(max, ends)),
        3 => (0..4_usize, vec(end, 4)).prop_map(|(max, ends)| Op::Process(max, ends)),
    ]
}

/// An event in the form of the model.
#[derive(Clone, Debug)]
enum Noted {
    /// Kind, key and number.
    Delta(char, Key, u64),
    Tombstone(Key),
    /// What is listed, and the keys that are kept.
    All(Vec<(Key, u64)>, Vec<Key>),
    Sync,
}

impl Noted {
    fn key(&self) -> Option<Key> {
        match self {
            Noted::Delta(_, key, _) | Noted::Tombstone(key) => Some(*key),
            Noted::All(..) | Noted::Sync => None,
        }
    }

    fn weight(&self) -> usize {
        if let Noted::All(list, _) = self { list.len().max(1) } else { 1 }
    }

    fn show(&self) -> String {
        match self {
            Noted::Delta(kind, key, n) => format!("k{key}:{kind}{n}"),
            Noted::Tombstone(key) => format!("k{key}:D(0)"),
            Noted::All(list, kept) => {
                let listed = list.iter().map(|(key, n)| format!(" k{key}{n}"));
                let kept = kept.iter().map(|key| format!(" +k{key}"));
                format!("all@7{}", listed.chain(kept).collect::<String>())
            }
            Noted::Sync => "sync".to_owned(),
        }
    }
}

#[derive(Default)]
struct Model {
    log: VecDeque<Noted>,
    store: BTreeMap<Key, u64>,
    populated: bool,
    /// Events until the first relist has been handled, if that populated the queue.
    initial: usize,
}

impl Model {
    fn offer(&mut self, event: Noted) {
        self.populated = true;
        self.log.push_back(event);
    }

    fn replace(&mut self, list: Vec<(Key, u64)>, kept: Vec<Key>) {
        self.log.push_back(Noted::All(list, kept));
        if !self.populated {
            self.populated = true;
            self.initial = self.log.len();
        }
    }

    fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    /// Returns the number of events of a batch of at most `max`.
    fn batch(&self, max: usize) -> usize {
        let mut keys = Vec::new();
        for event in self.log.iter().take(max.max(1)) {
            match event.key() {
                Some(key) if !keys.contains(&key) => keys.push(key),
                None if keys.is_empty() => return 1,
                _ => break,
            }
        }
        keys.len()
    }

    fn take(&mut self) -> Noted {
        self.initial = self.initial.saturating_sub(1);
        self.log.pop_front().unwrap()
    }

    /// Applies an event and returns its notifications. Those of a resync are sorted by key.
    fn apply(&mut self, event: Noted) -> Vec<String> {
        match event {
            Noted::Delta('D', key, n) => {
                let unknown = if self.store.remove(&key).is_none() { "?" } else { "" };
                vec![format!("-k{key}{n}{unknown}")]
            }
            Noted::Delta(kind, key, n) => vec![self.put(kind, key, n)],
            Noted::Tombstone(key) => {
                vec![format!(
                    "-k{key}(){}",
                    if self.store.remove(&key).is_none() { "?" } else { "" }
                )]
            }
            Noted::All(list, kept) => {
                let listed =
                    |key: &Key| kept.contains(key) || list.iter().any(|(listed, _)| listed == key);
                let gone: Vec<_> = self
                    .store
                    .iter()
                    .filter(|(key, _)| !listed(key))
                    .map(|(key, n)| (*key, *n))
                    .collect();
                let mut told = Vec::new();
                for (key, n) in gone {
                    self.store.remove(&key);
                    told.push(format!("-k{key}({n})"));
                }
                told.extend(list.into_iter().map(|(key, n)| self.put('R', key, n)));
                told
            }
            Noted::Sync => self.store.iter().map(|(key, n)| format!("S k{key}{n}>{n}")).collect(),
        }
    }

    fn put(&mut self, kind: char, key: Key, n: u64) -> String {
        match self.store.insert(key, n) {
            None => format!("{kind}+k{key}{n}"),
            Some(old) => format!("{kind} k{key}{old}>{n}"),
        }
    }
}

/// Handles an event with this end.
fn handler(turn: &mut Taken<'_>, end: End, told: &mut Vec<String>) -> Result<(), &'static str> {
    match end {
        End::Passes => turn.advance(),
        End::Fails => return Err("meant"),
        End::Panics => resume_unwind(Box::new("meant")),
        End::Applies | End::PanicsAt(_) => turn
            .apply(|key, change| {
                told.push(show_change(key, &change));
                if end == End::PanicsAt(told.len() - 1) {
                    resume_unwind(Box::new("meant"));
                }
            })
            .unwrap(),
    }
    Ok(())
}

/// Returns the expected notifications for this end of a handler, and the key of its failure, if it
/// fails.
fn expected(model: &mut Model, end: End) -> (Vec<String>, Option<String>) {
    let event = model.take();
    let key = event.key().map_or("*".to_owned(), name);
    match end {
        End::Passes => (Vec::new(), None),
        End::Fails | End::Panics => (Vec::new(), Some(key)),
        End::Applies => (model.apply(event), None),
        End::PanicsAt(place) => {
            let mut told = model.apply(event);
            if place >= told.len() {
                return (told, None);
            }
            told.truncate(place + 1);
            // The key has two letters, at any position.
            let from = told[place].find('k').unwrap();
            let key = told[place][from..from + 2].to_owned();
            (told, Some(key))
        }
    }
}

/// Compares notifications. Those of a resync have no order: their number must be right, and each
/// must show the stored object.
fn compare_told(told: &[String], expected: &[String], model: &Model) -> Result<(), TestCaseError> {
    if !expected.iter().all(|expected| expected.starts_with("S ")) {
        prop_assert_eq!(told, expected);
        return Ok(());
    }
    prop_assert_eq!(told.len(), expected.len());
    let each: BTreeSet<_> = told.iter().cloned().collect();
    prop_assert_eq!(each.len(), told.len(), "told twice");
    let all: BTreeSet<_> = model.store.iter().map(|(key, n)| format!("S k{key}{n}>{n}")).collect();
    prop_assert!(each.is_subset(&all), "{:?} of {:?}", told, all);
    Ok(())
}

fn compare(fifo: &Fifo, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(fifo.has_synced(), model.has_synced());
    prop_assert_eq!(fifo.pending(), model.log.iter().map(Noted::weight).sum::<usize>());
    let all: Vec<_> = model.store.iter().map(|(key, n)| format!("k{key}{n}")).collect();
    prop_assert_eq!(stored(fifo), all);
    Ok(())
}

fn pop(fifo: &Fifo, model: &mut Model, max: usize, ends: &[End]) -> Result<(), TestCaseError> {
    let Some(mut turn) = fifo.try_pop_batch(max) else {
        prop_assert!(model.log.is_empty());
        return Ok(());
    };
    let batch: Vec<_> = model.log.iter().take(model.batch(max)).map(Noted::show).collect();
    prop_assert_eq!(show_turn(&turn), batch);
    prop_assert_eq!(turn.is_in_initial_list(), !model.has_synced());
    for end in ends {
        if turn.is_empty() {
            break;
        }
        let (mut told, left) = (Vec::new(), turn.len());
        let ended = catch_unwind(AssertUnwindSafe(|| handler(&mut turn, *end, &mut told)));
        if !matches!(ended, Ok(Ok(()))) && turn.len() == left {
            // The handler did not touch the event, which stays current.
            continue;
        }
        let (expected, _) = expected(model, *end);
        compare_told(&told, &expected, model)?;
    }
    Ok(())
}

fn process(fifo: &Fifo, model: &mut Model, max: usize, ends: &[End]) -> Result<(), TestCaseError> {
    if model.log.is_empty() {
        return Ok(());
    }
    let (batch, is_sync) = (model.batch(max), matches!(model.log[0], Noted::Sync));
    let (mut told, mut calls) = (Vec::new(), 0);
    let report = fifo.process_batch(max, |turn| {
        let mut by_this = Vec::new();
        // Recorded for every end of the handler.
        let ended = catch_unwind(AssertUnwindSafe(|| handler(turn, ends[calls], &mut by_this)));
        calls += 1;
        told.push(by_this);
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    });
    prop_assert_eq!(calls, batch);
    let report = report.unwrap();
    let mut failed = Vec::new();
    for (end, told) in ends.iter().zip(&told) {
        let (expected, key) = expected(model, *end);
        compare_told(told, &expected, model)?;
        // The key at which a resync panics depends on its order.
        failed.extend(key.map(|key| {
            if is_sync && !told.is_empty() { told[told.len() - 1][2..4].to_owned() } else { key }
        }));
    }
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|failure| match failure {
            ProcessError::Handler { key, .. } | ProcessError::Panicked { key, .. } => key.clone(),
            ProcessError::Closed(_) => unreachable!("the relist is open"),
        })
        .collect();
    prop_assert_eq!(report.handled + failures.len(), batch);
    prop_assert_eq!(failures, failed);
    Ok(())
}

fn check(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let (fifo, mut model) = (picky(), Model::default());
    for (n, op) in (1..).zip(ops) {
        match op {
            Op::Add(key) => {
                fifo.add(obj(&name(key), n)).unwrap();
                model.offer(Noted::Delta('A', key, n));
            }
            Op::Update(key) => {
                fifo.update(obj(&name(key), n)).unwrap();
                model.offer(Noted::Delta('U', key, n));
            }
            Op::Delete(key) => {
                fifo.delete(obj(&name(key), n)).unwrap();
                model.offer(Noted::Delta('D', key, n));
            }
            Op::DeleteTombstone(key) => {
                fifo.delete(tombstone(&name(key), None)).unwrap();
                model.offer(Noted::Tombstone(key));
            }
            Op::Replace(keys) => {
                let list: Vec<_> = (n * 10..).zip(keys).map(|(n, key)| (key, n)).collect();
                fifo.replace(list.iter().map(|(key, n)| obj(&name(*key), *n)).collect(), "7")
                    .unwrap();
                model.replace(list, vec![]);
            }
            Op::ReplaceKeeping(keys) => {
                let (mut list, mut kept) = (Vec::new(), Vec::new());
                let (mut objects, mut names, mut refused) =
                    (vec![nameless()], Vec::new(), Vec::new());
                for (n, (key, listed)) in (n * 10..).zip(keys) {
                    match listed {
                        Listed::Object => {
                            list.push((key, n));
                            objects.push(obj(&name(key), n));
                        }
                        Listed::Refused => {
                            refused.push(key);
                            objects.push(versioned(&name(key), n, "refused"));
                        }
                        Listed::Kept => {
                            kept.push(key);
                            names.push(name(key));
                        }
                    }
                }
                let said = fifo.replace_keeping(objects, names.iter().map(String::as_str), "7");
                prop_assert_eq!(said.len(), 1 + refused.len());
                kept.extend(refused);
                model.replace(list, kept);
            }
            Op::ReplaceRefused(keys) => {
                let mut list: Vec<_> = keys.into_iter().map(|key| obj(&name(key), n)).collect();
                list.push(nameless());
                prop_assert!(fifo.replace(list, "7").is_err());
            }
            Op::Refused => {
                prop_assert!(fifo.update(nameless()).is_err());
                model.populated = true;
            }
            Op::Resync => {
                fifo.resync();
                model.log.push_back(Noted::Sync);
            }
            Op::Pop(max, ends) => pop(&fifo, &mut model, max, &ends)?,
            Op::Process(max, ends) => process(&fifo, &mut model, max, &ends)?,
        }
        compare(&fifo, &model)?;
    }
    while !model.log.is_empty() {
        pop(&fifo, &mut model, 1, &[End::Applies])?;
    }
    prop_assert!(fifo.try_pop().is_none());
    compare(&fifo, &model)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn engine_answers_as_the_model(ops in vec(op(), 1..MOST)) {
        check(ops)?;
    }
}
