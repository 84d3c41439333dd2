//! Random operations on one thread, compared with a plain log and a map.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{Obj, ObjMeta, nameless, obj, tombstone, versioned};
use crate::rig::{Fifo, picky, show_change, show_turn, stored};
use deltafifo::{KeyScope, ProcessError, ScopeId, Turn};
use deltafifo_oracle::strategy::config;

type TestTurn<'f> = Turn<'f, Obj, ObjMeta>;

const MOST: usize = if cfg!(miri) { 15 } else { 60 };

/// The number of a key.
type Key = u8;

/// Returns the key with this number, which lies in the namespace of its scope.
fn name(key: Key) -> String {
    let namespace = if SCOPES[0].contains(&key) { "a" } else { "b" };
    format!("{namespace}/{key}")
}

#[derive(Clone, Debug)]
enum Op {
    Add(Key),
    Update(Key),
    Delete(Key),
    DeleteTombstone(Key),
    Replace(Vec<Key>),
    /// A list that the queue refuses, because one object has no key.
    ReplaceRefused(Vec<Key>),
    /// A list for `replace_keeping`. For each of these keys it has an object, an object that the
    /// transformer refuses, or only the key's name; in the last two cases the stored object stays.
    /// One more object has no key, and is refused. A queue with scopes refuses all objects.
    ReplaceKeeping(Vec<(Key, Listed)>),
    /// A list of a scope. The whole list is refused if a key is outside of the scope.
    ReplaceIn(usize, Vec<Key>),
    /// A list of a scope for `replace_keeping_in`, like that of `ReplaceKeeping`. Objects outside
    /// of the scope are refused, and the rest of the list is queued.
    ReplaceKeepingIn(usize, Vec<(Key, Listed)>),
    /// A list of a scope that does not count as a list of it (`ScopeId::uncounted`).
    ReplaceUncountedIn(usize, Vec<Key>),
    /// A list of a scope that deletes nothing.
    ReplaceKeepingUnlistedIn(usize, Vec<Key>),
    /// Adds the scope with this number. It is a namespace if the flag is true; otherwise a
    /// predicate selects its keys.
    AddScope(usize, bool),
    RemoveScope(usize),
    WaiveScope(usize),
    AwaitScope(usize),
    Refused,
    Resync,
    /// Pops a batch of at most this many events and handles some of them. Dropping the batch gives
    /// the others back.
    Pop(usize, Vec<End>),
    /// Handles an event with `process`; the handler ends in the given way.
    Process(End),
}

/// The content for one key of a list for `replace_keeping`.
#[derive(Clone, Copy, Debug)]
enum Listed {
    Object,
    Refused,
    Kept,
}

/// The way in which a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Applies,
    Passes,
    Fails,
    Panics,
    /// The handler panics when it is notified of the change at this index.
    PanicsAt(usize),
}

/// The keys of each scope. A scope is a number, the index in this array.
const SCOPES: [std::ops::Range<Key>; 2] = [0..2, 2..5];

fn listed() -> impl Strategy<Value = Listed> {
    prop_oneof![2 => Just(Listed::Object), 1 => Just(Listed::Refused), 2 => Just(Listed::Kept)]
}

/// Returns a strategy for the operations on a queue with scopes.
fn scoped_op() -> impl Strategy<Value = Op> {
    let scope = || 0..SCOPES.len();
    let inside = scope().prop_flat_map(|scope| (Just(scope), vec(SCOPES[scope].clone(), 0..3)));
    prop_oneof![
        20 => op(),
        4 => inside.clone().prop_map(|(scope, keys)| Op::ReplaceIn(scope, keys)),
        1 => (scope(), vec(0..5_u8, 0..3)).prop_map(|(scope, keys)| Op::ReplaceIn(scope, keys)),
        3 => (scope(), vec((0..5_u8, listed()), 0..6))
            .prop_map(|(scope, keys)| Op::ReplaceKeepingIn(scope, keys)),
        1 => inside.clone().prop_map(|(scope, keys)| Op::ReplaceUncountedIn(scope, keys)),
        1 => inside.prop_map(|(scope, keys)| Op::ReplaceKeepingUnlistedIn(scope, keys)),
        2 => (scope(), any::<bool>()).prop_map(|(scope, by_name)| Op::AddScope(scope, by_name)),
        1 => scope().prop_map(Op::RemoveScope),
        2 => scope().prop_map(Op::WaiveScope),
        2 => scope().prop_map(Op::AwaitScope),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..5_u8;
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
        3 => vec((key(), listed()), 0..6).prop_map(Op::ReplaceKeeping),
        1 => Just(Op::Refused),
        1 => Just(Op::Resync),
        4 => (0..4_usize, vec(end.clone(), 0..4)).prop_map(|(max, ends)| Op::Pop(max, ends)),
        3 => end.prop_map(Op::Process),
    ]
}

/// An event of the queue, in the form of the model.
#[derive(Clone, Debug)]
enum Noted {
    /// A delta with an object: the kind, the key, and the number of the object.
    Delta(char, Key, u64),
    Tombstone(Key),
    All(All),
    Sync,
}

/// A relist, in the form of the model.
#[derive(Clone, Debug, Default)]
struct All {
    list: Vec<(Key, u64)>,
    kept: Vec<Key>,
    keeps_unlisted: bool,
    /// The keys of the relist's scope; `None` for a relist of the whole queue.
    within: Option<std::ops::Range<Key>>,
    /// Whether this is the relist of a removed scope, which is empty and has no version.
    removes: bool,
    /// Whether the relist belongs to the initial population.
    is_marked: bool,
}

impl All {
    fn deletes(&self, key: Key) -> bool {
        let is_listed =
            self.kept.contains(&key) || self.list.iter().any(|(listed, _)| *listed == key);
        let is_within = self.within.as_ref().is_none_or(|within| within.contains(&key));
        !self.keeps_unlisted && is_within && !is_listed
    }
}

impl Noted {
    fn key(&self) -> Option<Key> {
        match self {
            Noted::Delta(_, key, _) | Noted::Tombstone(key) => Some(*key),
            Noted::All(..) | Noted::Sync => None,
        }
    }

    fn weight(&self) -> usize {
        if let Noted::All(all) = self { all.list.len().max(1) } else { 1 }
    }

    fn show(&self) -> String {
        match self {
            Noted::Delta(kind, key, n) => format!("{}:{kind}{n}", name(*key)),
            Noted::Tombstone(key) => format!("{}:D(0)", name(*key)),
            Noted::All(all) => {
                let listed = all.list.iter().map(|(key, n)| format!(" {}{n}", name(*key)));
                let kept = all.kept.iter().map(|key| format!(" +{}", name(*key)));
                let version = if all.removes { "" } else { "7" };
                format!("all@{version}{}", listed.chain(kept).collect::<String>())
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
    /// The state of each scope; `None` if it does not exist.
    scopes: [Option<Scope>; SCOPES.len()],
}

#[derive(Clone, Copy)]
struct Scope {
    /// Whether the initial population waits for the scope's first list.
    is_awaited: bool,
    has_list: bool,
    /// Whether the scope was waived, and since then was neither listed nor awaited.
    is_waived: bool,
}

impl Model {
    fn offer(&mut self, event: Noted) {
        self.touch();
        self.log.push_back(event);
    }

    /// Records that an offer was made, which populates the queue unless it waits for the first
    /// lists of scopes.
    fn touch(&mut self) {
        self.populated |= !self.waits();
    }

    fn waits(&self) -> bool {
        self.scopes.iter().flatten().any(|scope| scope.is_awaited)
    }

    fn has_scopes(&self) -> bool {
        self.scopes.iter().any(Option::is_some)
    }

    fn replace(&mut self, all: All) {
        let is_marked = !self.populated;
        self.log.push_back(Noted::All(All { is_marked, ..all }));
        self.populated = true;
    }

    fn replace_in(&mut self, scope: usize, all: All) {
        let is_marked = self.scopes[scope].is_some_and(|scope| scope.is_awaited);
        let within = Some(SCOPES[scope].clone());
        self.log.push_back(Noted::All(All { within, is_marked, ..all }));
        let listed = Scope { is_awaited: false, has_list: true, is_waived: false };
        self.set_scope(scope, Some(listed));
    }

    /// Changes or removes a scope. When no scope's first list is awaited any more, the queue is
    /// populated.
    fn set_scope(&mut self, scope: usize, to: Option<Scope>) {
        let before = std::mem::replace(&mut self.scopes[scope], to);
        let was_awaited = before.is_some_and(|before| before.is_awaited);
        self.populated |= was_awaited && !self.waits();
    }

    fn has_synced(&self) -> bool {
        let is_marked = |event: &Noted| matches!(event, Noted::All(all) if all.is_marked);
        self.populated && !self.log.iter().any(is_marked)
    }

    /// Returns the number of events in the next batch of at most `max` events.
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
        self.log.pop_front().unwrap()
    }

    /// Applies an event and returns its notifications, sorted by key for a resync.
    fn apply(&mut self, event: Noted) -> Vec<String> {
        match event {
            Noted::Delta('D', key, n) => {
                let unknown = if self.store.remove(&key).is_none() { "?" } else { "" };
                vec![format!("-{}{n}{unknown}", name(key))]
            }
            Noted::Delta(kind, key, n) => vec![self.put(kind, key, n)],
            Noted::Tombstone(key) => {
                let unknown = if self.store.remove(&key).is_none() { "?" } else { "" };
                vec![format!("-{}(){unknown}", name(key))]
            }
            Noted::All(all) => {
                let gone = self.store.iter().filter(|(key, _)| all.deletes(**key));
                let gone: Vec<_> = gone.map(|(key, n)| (*key, *n)).collect();
                let mut notified = Vec::new();
                for (key, n) in gone {
                    self.store.remove(&key);
                    let mark = if all.removes { "!" } else { "" };
                    notified.push(format!("-{}{mark}({n})", name(key)));
                }
                notified.extend(all.list.into_iter().map(|(key, n)| self.put('R', key, n)));
                notified
            }
            Noted::Sync => self.store.iter().map(resynced).collect(),
        }
    }

    fn put(&mut self, kind: char, key: Key, n: u64) -> String {
        let old = self.store.insert(key, n);
        let key = name(key);
        match old {
            None => format!("{kind}+{key}{n}"),
            Some(old) => format!("{kind} {key}{old}>{n}"),
        }
    }
}

/// Returns the notification of a resync for a stored object.
fn resynced((key, n): (&Key, &u64)) -> String {
    format!("S {}{n}>{n}", name(*key))
}

/// Handles an event as a handler that ends in the given way. Records its notifications.
fn handler(
    turn: &mut TestTurn<'_>,
    end: End,
    notified: &mut Vec<String>,
) -> Result<(), &'static str> {
    match end {
        End::Passes => turn.advance(),
        End::Fails => return Err("meant"),
        End::Panics => resume_unwind(Box::new("meant")),
        End::Applies | End::PanicsAt(_) => turn
            .apply(|key, change| {
                notified.push(show_change(key, &change));
                if end == End::PanicsAt(notified.len() - 1) {
                    resume_unwind(Box::new("meant"));
                }
            })
            .unwrap(),
    }
    Ok(())
}

/// Takes the next event from the model. Returns the notifications that are expected of a handler
/// that ends in this way, and, if the handler fails or panics, the key that the error must name.
fn expected(model: &mut Model, end: End) -> (Vec<String>, Option<String>) {
    let event = model.take();
    let key = event.key().map_or("*".to_owned(), name);
    match end {
        End::Passes => (Vec::new(), None),
        End::Fails | End::Panics => (Vec::new(), Some(key)),
        End::Applies => (model.apply(event), None),
        End::PanicsAt(place) => {
            let mut notified = model.apply(event);
            if place >= notified.len() {
                return (notified, None);
            }
            notified.truncate(place + 1);
            // The key is the slash with a letter on each side.
            let slash = notified[place].find('/').unwrap();
            let key = notified[place][slash - 1..=slash + 1].to_owned();
            (notified, Some(key))
        }
    }
}

/// Compares notifications. The notifications of a resync have no order: their number must be right,
/// and each must show the stored object.
fn compare_notified(
    notified: &[String],
    expected: &[String],
    model: &Model,
) -> Result<(), TestCaseError> {
    if !expected.iter().all(|expected| expected.starts_with("S ")) {
        prop_assert_eq!(notified, expected);
        return Ok(());
    }
    prop_assert_eq!(notified.len(), expected.len());
    let each: BTreeSet<_> = notified.iter().cloned().collect();
    prop_assert_eq!(each.len(), notified.len(), "notified twice");
    let all: BTreeSet<_> = model.store.iter().map(resynced).collect();
    prop_assert!(each.is_subset(&all), "{:?} of {:?}", notified, all);
    Ok(())
}

fn compare(fifo: &Fifo, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(fifo.has_synced(), model.has_synced());
    prop_assert_eq!(fifo.pending(), model.log.iter().map(Noted::weight).sum::<usize>());
    let all: Vec<_> = model.store.iter().map(|(key, n)| format!("{}{n}", name(*key))).collect();
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
        if turn.event().is_none() {
            break;
        }
        let (mut notified, left) = (Vec::new(), turn.events().count());
        let ended = catch_unwind(AssertUnwindSafe(|| handler(&mut turn, *end, &mut notified)));
        if !matches!(ended, Ok(Ok(()))) && turn.events().count() == left {
            // The handler did not touch the event, which stays current.
            continue;
        }
        let (expected, _) = expected(model, *end);
        compare_notified(&notified, &expected, model)?;
    }
    Ok(())
}

fn process(fifo: &Fifo, model: &mut Model, end: End) -> Result<(), TestCaseError> {
    if model.log.is_empty() {
        return Ok(());
    }
    let is_sync = matches!(model.log[0], Noted::Sync);
    let mut notified = Vec::new();
    let failure = match fifo.process(|turn| handler(turn, end, &mut notified)) {
        Ok(()) => None,
        Err(ProcessError::Handler { key, .. } | ProcessError::Panicked { key, .. }) => Some(key),
        Err(ProcessError::Closed(_)) => unreachable!("the queue is open"),
    };
    let (expected, key) = expected(model, end);
    compare_notified(&notified, &expected, model)?;
    // The key at which a resync panics depends on its order.
    let failed = key.map(|key| match notified.last() {
        Some(last) if is_sync => last[2..5].to_owned(),
        _ => key,
    });
    prop_assert_eq!(failure, failed);
    Ok(())
}

/// The input of `replace_keeping` or `replace_keeping_in`, and the number of refusals to expect.
/// One of the objects has no key, and is refused.
struct Keeping {
    objects: Vec<Arc<Obj>>,
    /// The names of the keys that are listed without an object.
    names: Vec<String>,
    refused: usize,
    all: All,
}

impl Keeping {
    /// Makes the list of these keys, with objects numbered from `n * 10`. Keys outside of
    /// `within` are refused.
    fn new(n: u64, keys: Vec<(Key, Listed)>, within: &std::ops::Range<Key>) -> Self {
        let mut this =
            Self { objects: vec![nameless()], names: Vec::new(), refused: 1, all: All::default() };
        let mut refused = Vec::new();
        for (n, (key, listed)) in (n * 10..).zip(keys) {
            let is_within = within.contains(&key);
            match listed {
                Listed::Object => {
                    this.objects.push(obj(&name(key), n));
                    this.all.list.extend(is_within.then_some((key, n)));
                    this.refused += usize::from(!is_within);
                }
                Listed::Refused => {
                    this.objects.push(versioned(&name(key), n, "refused"));
                    refused.extend(is_within.then_some(key));
                    this.refused += 1;
                }
                Listed::Kept => {
                    this.names.push(name(key));
                    this.all.kept.push(key);
                }
            }
        }
        this.all.kept.extend(refused);
        this
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

fn numbered(n: u64, keys: Vec<Key>) -> (Vec<Arc<Obj>>, All) {
    let list: Vec<_> = (n * 10..).zip(keys).map(|(n, key)| (key, n)).collect();
    let objects = list.iter().map(|(key, n)| obj(&name(*key), *n)).collect();
    (objects, All { list, ..All::default() })
}

fn add_scope(fifo: &Fifo, model: &mut Model, scope: usize, is_namespace: bool) -> ScopeId {
    let keys: Vec<_> = SCOPES[scope].clone().map(name).collect();
    let is_awaited = !model.populated;
    model.scopes[scope] = Some(Scope { is_awaited, has_list: false, is_waived: false });
    let scope = if is_namespace {
        KeyScope::namespace(&keys[0][..1])
    } else {
        KeyScope::keys(format!("scope {scope}"), move |key| keys.iter().any(|own| own == key))
    };
    fifo.add_scope(scope).unwrap()
}

#[allow(clippy::too_many_lines)] // An arm for each operation.
fn check(ops: Vec<Op>, scopes: usize) -> Result<(), TestCaseError> {
    let (fifo, mut model) = (picky(), Model::default());
    let mut ids = [const { None }; SCOPES.len()];
    for (scope, id) in ids.iter_mut().enumerate().take(scopes) {
        *id = Some(add_scope(&fifo, &mut model, scope, scope == 0));
    }
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
                let (objects, all) = numbered(n, keys);
                let replaced = fifo.replace(objects, "7");
                prop_assert_eq!(replaced.is_err(), model.has_scopes());
                if replaced.is_ok() {
                    model.replace(all);
                }
            }
            Op::ReplaceKeeping(keys) => {
                let list = Keeping::new(n, keys, &(0..5));
                let refused = fifo.replace_keeping(list.objects.clone(), list.names(), "7");
                if model.has_scopes() {
                    prop_assert_eq!(refused.len(), list.objects.len());
                } else {
                    prop_assert_eq!(refused.len(), list.refused);
                    model.replace(list.all);
                }
            }
            Op::ReplaceIn(scope, keys) => {
                let Some(id) = &ids[scope] else { continue };
                let is_within = keys.iter().all(|key| SCOPES[scope].contains(key));
                let (objects, all) = numbered(n, keys);
                let replaced = fifo.replace_in(id, objects, "7");
                prop_assert_eq!(replaced.is_ok(), is_within && model.scopes[scope].is_some());
                if replaced.is_ok() {
                    model.replace_in(scope, all);
                }
            }
            Op::ReplaceKeepingIn(scope, keys) => {
                let Some(id) = &ids[scope] else { continue };
                let list = Keeping::new(n, keys, &SCOPES[scope]);
                let refused = fifo.replace_keeping_in(id, list.objects.clone(), list.names(), "7");
                prop_assert_eq!(refused.is_ok(), model.scopes[scope].is_some());
                if let Ok(refused) = refused {
                    prop_assert_eq!(refused.len(), list.refused);
                    model.replace_in(scope, list.all);
                }
            }
            Op::ReplaceUncountedIn(scope, keys) => {
                let Some(id) = &ids[scope] else { continue };
                let (objects, all) = numbered(n, keys);
                let replaced = fifo.replace_in(&id.uncounted(), objects, "7");
                prop_assert_eq!(replaced.is_ok(), model.scopes[scope].is_some());
                if replaced.is_ok() {
                    let within = Some(SCOPES[scope].clone());
                    model.log.push_back(Noted::All(All { within, ..all }));
                }
            }
            Op::ReplaceKeepingUnlistedIn(scope, keys) => {
                let Some(id) = &ids[scope] else { continue };
                let (objects, all) = numbered(n, keys);
                let refused = fifo.replace_keeping_unlisted_in(id, objects, "7");
                prop_assert_eq!(refused.is_ok(), model.scopes[scope].is_some());
                if refused.is_ok() {
                    model.replace_in(scope, All { keeps_unlisted: true, ..all });
                }
            }
            Op::AddScope(scope, is_namespace) => {
                if model.scopes[scope].is_none() {
                    ids[scope] = Some(add_scope(&fifo, &mut model, scope, is_namespace));
                }
            }
            Op::RemoveScope(scope) => {
                // A second removal of the same scope is an error.
                let Some(id) = &ids[scope] else { continue };
                prop_assert_eq!(fifo.remove_scope(id).is_ok(), model.scopes[scope].is_some());
                if model.scopes[scope].is_some() {
                    model.set_scope(scope, None);
                    let within = Some(SCOPES[scope].clone());
                    model.log.push_back(Noted::All(All {
                        within,
                        removes: true,
                        ..All::default()
                    }));
                }
            }
            Op::WaiveScope(scope) => {
                let Some(id) = &ids[scope] else { continue };
                fifo.waive_scope(id);
                if let Some(waived) = model.scopes[scope] {
                    let waived = Scope { is_awaited: false, is_waived: true, ..waived };
                    model.set_scope(scope, Some(waived));
                }
            }
            Op::AwaitScope(scope) => {
                let Some(id) = &ids[scope] else { continue };
                fifo.await_scope(id);
                let waits = !model.populated;
                if let Some(entry) = &mut model.scopes[scope]
                    && std::mem::take(&mut entry.is_waived)
                {
                    entry.is_awaited = waits && !entry.has_list;
                }
            }
            Op::ReplaceRefused(keys) => {
                let mut list: Vec<_> = keys.into_iter().map(|key| obj(&name(key), n)).collect();
                list.push(nameless());
                prop_assert!(fifo.replace(list, "7").is_err());
            }
            Op::Refused => {
                prop_assert!(fifo.update(nameless()).is_err());
                model.touch();
            }
            Op::Resync => {
                fifo.resync();
                model.log.push_back(Noted::Sync);
            }
            Op::Pop(max, ends) => pop(&fifo, &mut model, max, &ends)?,
            Op::Process(end) => process(&fifo, &mut model, end)?,
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
        check(ops, 0)?;
    }

    #[test]
    fn engine_with_scopes_answers_as_the_model(
        ops in vec(scoped_op(), 1..MOST),
        scopes in 0..=SCOPES.len(),
    ) {
        check(ops, scopes)?;
    }
}
