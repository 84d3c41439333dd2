//! Random operations with several guards and a batch held at once, compared with a plain record of
//! the offers that are not handled. The version of a marker must be applied exactly if every
//! earlier offer is handled.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use deltafifo::{Batch, KeyScope, Relist, ScopeId};
use deltafifo_oracle::strategy::config;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{Guard, Mode, Obj, ObjMeta, Rig, obj};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// The keys of each scope, as places in [`KEYS`].
const SCOPES: [std::ops::Range<usize>; 2] = [0..2, 2..4];
const MOST: usize = if cfg!(miri) { 15 } else { 80 };

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Apply,
    /// The item counts as handled, but is not applied.
    Fail,
    Panic,
    PutBack,
}

#[derive(Clone, Debug)]
enum Op {
    Update(usize),
    Batch(Vec<usize>),
    Delete(usize),
    /// A relist: the listed keys, as places in [`KEYS`], and the version of the commit.
    Replace(Vec<usize>, u64),
    Bookmark(u64),
    /// The beginning of a relist of a scope, which supersedes an open one: the place of the scope
    /// in [`SCOPES`], and the listed keys, which all belong to the scope, as places in [`KEYS`].
    BeginIn(usize, Vec<usize>),
    /// The commit of the open relist of a scope, at a version.
    CommitIn(usize, u64),
    BookmarkIn(usize, u64),
    Waive(usize),
    Await(usize),
    Remove(usize),
    Add(usize),
    Take,
    TakeBatch(usize),
    Next,
    DropBatch,
    End(usize, Verdict),
}

fn key() -> impl Strategy<Value = usize> + Clone {
    0..KEYS.len()
}

/// Returns a strategy for the operations on a queue with scopes.
fn scoped_op() -> impl Strategy<Value = Op> {
    let scope = || 0..SCOPES.len();
    let keys = |scope: usize| vec(SCOPES[scope].clone(), 0..3);
    let list = scope().prop_flat_map(move |scope| (Just(scope), keys(scope)));
    prop_oneof![
        6 => op(),
        3 => list.prop_map(|(scope, keys)| Op::BeginIn(scope, keys)),
        3 => (scope(), 0..60_u64).prop_map(|(scope, version)| Op::CommitIn(scope, version)),
        3 => (scope(), 0..60_u64).prop_map(|(scope, version)| Op::BookmarkIn(scope, version)),
        1 => prop_oneof![
            2 => scope().prop_map(Op::Waive),
            1 => scope().prop_map(Op::Await),
            1 => scope().prop_map(Op::Remove),
            2 => scope().prop_map(Op::Add),
        ],
    ]
}

fn op() -> impl Strategy<Value = Op> {
    use Verdict::{Apply, Fail, Panic, PutBack};
    let verdict =
        prop_oneof![5 => Just(Apply), 1 => Just(Fail), 1 => Just(Panic), 3 => Just(PutBack)];
    prop_oneof![
        5 => key().prop_map(Op::Update),
        2 => vec(key(), 1..4).prop_map(Op::Batch),
        2 => key().prop_map(Op::Delete),
        2 => (vec(key(), 0..4), 0..60_u64).prop_map(|(keys, version)| Op::Replace(keys, version)),
        5 => (0..60_u64).prop_map(Op::Bookmark),
        5 => Just(Op::Take),
        1 => (1..5_usize).prop_map(Op::TakeBatch),
        2 => Just(Op::Next),
        1 => Just(Op::DropBatch),
        6 => (any::<usize>(), verdict).prop_map(|(which, verdict)| Op::End(which, verdict)),
    ]
}

/// An offer: its number, and whether it is a deletion.
type Offer = (u64, bool);

#[derive(Default)]
struct Key {
    known: bool,
    pending: Vec<Offer>,
    /// The offers that the running handler has, if one runs. Offers during the handler are in
    /// `pending`.
    running: Option<Vec<Offer>>,
}

#[derive(Default)]
struct Account {
    keys: BTreeMap<String, Key>,
    offers: u64,
    /// The points at which a marker was added, each with the number of the first offer after it.
    markers: Vec<(Point, u64)>,
    /// The greatest point so far. It belongs to the current history.
    marked: Point,
    /// The number of times so far that the queue began to wait for a scope: when the scope was
    /// added, and when its waiver ended. Markers from before do not count.
    edition: u64,
    applied: Option<Point>,
    scopes: [Option<Scope>; SCOPES.len()],
}

/// A point in the versions of the queue: the number of a history, an [edition](Account::edition),
/// and a version. A list at a lower version than the one before begins a new history.
type Point = (u64, u64, u64);

#[derive(Default)]
struct Scope {
    /// Whether the scope was waived (`DeltaFifo::waive_scope`), with no list or bookmark since.
    is_waived: bool,
    /// The number of the history in which the scope was added.
    added: u64,
    /// The number of the history and the version that the scope has reached; `None` before its
    /// first list or bookmark.
    reached: Option<(u64, u64)>,
    /// The open relist, if any.
    open: Option<Open>,
}

/// An open relist of a scope.
struct Open {
    /// The number of the history in which the relist began.
    began: u64,
    /// The places of the keys that the commit does not delete: they were listed, or written since
    /// the relist began.
    listed: Vec<usize>,
}

impl Account {
    fn key(&mut self, key: &str) -> &mut Key {
        self.keys.entry(key.to_owned()).or_default()
    }

    /// Records an add or an update of a key, which also protects it from the commits of all open
    /// relists.
    fn update(&mut self, place: usize) {
        let scopes = self.scopes.iter_mut().flatten();
        scopes.filter_map(|scope| scope.open.as_mut()).for_each(|open| open.listed.push(place));
        self.offer(KEYS[place], false);
    }

    fn offer(&mut self, key: &str, is_deletion: bool) {
        let number = self.offers;
        self.offers += 1;
        let key = self.key(key);
        // During a handler the decision depends on the state that the handler leaves.
        if !is_deletion || key.running.is_some() || key.known || !key.pending.is_empty() {
            key.pending.push((number, is_deletion));
        }
    }

    fn replace(&mut self, listed: &[usize], version: u64) {
        for &place in listed {
            self.offer(KEYS[place], false);
        }
        let others = (0..KEYS.len()).filter(|place| !listed.contains(place));
        others.for_each(|place| self.offer(KEYS[place], true));
        // A complete list at a lower version begins another history, and the old history does not
        // count any more. At version 0 the version of a list has no meaning.
        let begins = version > 0 && version < self.marked.2;
        self.mark(self.marked.0 + u64::from(begins), version);
    }

    fn mark(&mut self, history: u64, version: u64) {
        let point = (history, self.edition, version);
        self.marked = self.marked.max(point);
        self.markers.push((point, self.offers));
    }

    fn begin_in(&mut self, scope: usize, listed: &[usize]) {
        let open = Open { began: self.marked.0, listed: listed.to_vec() };
        self.scopes[scope].as_mut().unwrap().open = Some(open);
        for &place in listed {
            self.offer(KEYS[place], false);
        }
    }

    fn commit_in(&mut self, scope: usize, version: u64) {
        let entry = self.scopes[scope].as_mut().unwrap();
        let Open { began, listed } = entry.open.take().unwrap();
        self.edition += u64::from(std::mem::take(&mut entry.is_waived));
        // The list may have been made before a restore that a list of another scope has shown since
        // it began. A lower version than before shows a restore after the scope's last list.
        let history = match entry.reached {
            Some((last, reached)) if 0 < version && version < reached => began.max(last + 1),
            Some((last, _)) => began.max(last),
            None => began,
        };
        entry.reached = Some((history, version));
        if self.marked.0 < history {
            self.marked = (history, self.edition, 0);
        }
        self.delete_unlisted(scope, &listed);
        self.mark_least();
    }

    fn delete_unlisted(&mut self, scope: usize, listed: &[usize]) {
        let others = SCOPES[scope].clone().filter(|place| !listed.contains(place));
        others.for_each(|place| self.offer(KEYS[place], true));
    }

    fn bookmark_in(&mut self, scope: usize, version: u64) {
        if let Some(entry) = &mut self.scopes[scope] {
            // The bookmark belongs to the history of the scope's last list, or before the first
            // list to the history in which the scope was added.
            let history = entry.reached.map_or(entry.added, |(history, _)| history);
            entry.reached = entry.reached.max(Some((history, version)));
            self.edition += u64::from(std::mem::take(&mut entry.is_waived));
        }
        self.mark_least();
    }

    fn waive(&mut self, scope: usize) {
        if let Some(entry) = &mut self.scopes[scope] {
            entry.is_waived = true;
        }
        self.mark_least();
    }

    fn await_again(&mut self, scope: usize) {
        if let Some(entry) = &mut self.scopes[scope] {
            self.edition += u64::from(std::mem::take(&mut entry.is_waived));
        }
        self.mark_least();
    }

    fn remove(&mut self, scope: usize) {
        self.delete_unlisted(scope, &[]);
        self.scopes[scope] = None;
        self.mark_least();
    }

    /// Adds a marker at the least point that a scope has reached, if every scope has reached one:
    /// up to that point, the changes of all scopes were offered. Waived scopes do not count.
    fn mark_least(&mut self) {
        let counting = self.scopes.iter().flatten().filter(|scope| !scope.is_waived);
        if let Some(Some((history, version))) = counting.map(|scope| scope.reached).min() {
            self.mark(history, version);
        }
    }

    fn take(&mut self, key: &str) {
        let key = self.key(key);
        assert!(key.running.is_none() && !key.pending.is_empty());
        key.running = Some(std::mem::take(&mut key.pending));
    }

    fn end(&mut self, key: &str, verdict: Verdict) {
        let key = self.key(key);
        let handled = key.running.take().unwrap();
        let over = std::mem::take(&mut key.pending);
        match verdict {
            Verdict::Apply => {
                key.known = handled.last().is_some_and(|(_, is_deletion)| !is_deletion);
            }
            Verdict::PutBack => key.pending = handled,
            Verdict::Fail | Verdict::Panic => {}
        }
        for (number, is_deletion) in over {
            if !is_deletion || key.known || !key.pending.is_empty() {
                key.pending.push((number, is_deletion));
            }
        }
    }

    fn applied(&mut self) -> Option<u64> {
        let left = |key: &Key| {
            key.pending.iter().chain(key.running.iter().flatten()).map(|(number, _)| *number).min()
        };
        let first = self.keys.values().filter_map(left).min().unwrap_or(u64::MAX);
        let reached =
            self.markers.iter().filter(|(_, after)| *after <= first).map(|(point, _)| *point).max();
        self.applied = self.applied.max(reached);
        let is_current =
            |(history, edition, _): &Point| (*history, *edition) == (self.marked.0, self.edition);
        self.applied.filter(is_current).map(|(.., version)| version)
    }
}

/// A queue together with the plain record.
struct Run<'r> {
    rig: &'r Rig,
    account: Account,
    guards: Vec<Guard<'r>>,
    batch: Option<Batch<'r, Obj, ObjMeta>>,
    scopes: [Option<ScopeId>; SCOPES.len()],
    /// The open relist of each scope.
    relists: [Option<Relist<'r, Obj, ObjMeta>>; SCOPES.len()],
}

impl<'r> Run<'r> {
    fn step(&mut self, op: &Op) {
        let (fifo, account) = (&self.rig.fifo, &mut self.account);
        let is_whole = self.scopes.iter().all(Option::is_none);
        match op {
            Op::Update(place) => {
                account.update(*place);
                fifo.update(obj(KEYS[*place], 1)).unwrap();
            }
            Op::Batch(places) => {
                for &place in places {
                    account.update(place);
                }
                fifo.update_batch(places.iter().map(|&place| obj(KEYS[place], 1)).collect())
                    .unwrap();
            }
            Op::Delete(place) => {
                account.offer(KEYS[*place], true);
                fifo.delete(obj(KEYS[*place], 1)).unwrap();
            }
            Op::Replace(places, version) => {
                let list = places.iter().map(|&place| obj(KEYS[place], 1)).collect();
                let replaced = fifo.replace(list, &version.to_string());
                assert_eq!(replaced.is_ok(), is_whole);
                if replaced.is_ok() {
                    account.replace(places, *version);
                }
            }
            Op::Bookmark(version) => {
                let bookmarked = fifo.bookmark(&version.to_string());
                assert_eq!(bookmarked.is_ok(), is_whole);
                if bookmarked.is_ok() {
                    account.mark(account.marked.0, *version);
                }
            }
            Op::BeginIn(scope, places) => {
                let Some(id) = &self.scopes[*scope] else { return };
                account.begin_in(*scope, places);
                let mut relist = fifo.begin_replace_in(id);
                let list = places.iter().map(|&place| obj(KEYS[place], 1)).collect();
                assert!(relist.offer(list).unwrap().is_empty());
                self.relists[*scope] = Some(relist);
            }
            Op::CommitIn(scope, version) => {
                let Some(relist) = self.relists[*scope].take() else { return };
                account.commit_in(*scope, *version);
                relist.commit(&version.to_string()).unwrap();
            }
            Op::BookmarkIn(scope, version) => {
                let Some(id) = &self.scopes[*scope] else { return };
                account.bookmark_in(*scope, *version);
                fifo.bookmark_in(id, &version.to_string()).unwrap();
            }
            Op::Waive(scope) => {
                let Some(id) = &self.scopes[*scope] else { return };
                account.waive(*scope);
                fifo.waive_scope(id);
            }
            Op::Await(scope) => {
                let Some(id) = &self.scopes[*scope] else { return };
                account.await_again(*scope);
                fifo.await_scope(id);
            }
            Op::Remove(scope) => {
                let Some(id) = self.scopes[*scope].take() else { return };
                account.remove(*scope);
                fifo.remove_scope(&id).unwrap();
                // The removal has superseded it.
                self.relists[*scope] = None;
            }
            Op::Add(scope) => {
                if self.scopes[*scope].is_none() {
                    self.add_scope(*scope);
                }
            }
            Op::Take => {
                let taken = fifo.try_pop();
                self.hold(taken);
            }
            Op::TakeBatch(max) => {
                self.batch = self.rig.fifo.try_pop_batch(*max).or(self.batch.take());
            }
            Op::Next => {
                let taken = self.batch.as_mut().and_then(Batch::next);
                self.hold(taken);
            }
            Op::DropBatch => self.batch = None,
            Op::End(which, verdict) => {
                if !self.guards.is_empty() {
                    let guard = self.guards.swap_remove(which % self.guards.len());
                    self.end(guard, *verdict);
                }
            }
        }
    }

    fn add_scope(&mut self, scope: usize) {
        let keys = SCOPES[scope].clone().map(|place| KEYS[place]);
        let contains = move |key: &str| keys.clone().any(|own| own == key);
        let id = self.rig.fifo.add_scope(KeyScope::keys(format!("{scope}"), contains)).unwrap();
        let added = Scope { added: self.account.marked.0, ..Scope::default() };
        (self.scopes[scope], self.account.scopes[scope]) = (Some(id), Some(added));
        // Nothing is applied until the new scope has a point, too.
        self.account.edition += 1;
    }

    fn hold(&mut self, taken: Option<Guard<'r>>) {
        if let Some(guard) = taken {
            self.account.take(guard.key());
            self.guards.push(guard);
        }
    }

    fn end(&mut self, mut guard: Guard<'_>, verdict: Verdict) {
        self.account.end(guard.key(), verdict);
        match verdict {
            Verdict::Apply => {
                self.rig.apply(&mut guard);
                guard.done();
            }
            Verdict::Fail => guard.done(),
            Verdict::Panic => {
                let unwound = catch_unwind(AssertUnwindSafe(move || {
                    let _guard = guard;
                    std::panic::resume_unwind(Box::new("expected by this test"));
                }));
                assert!(unwound.is_err());
            }
            Verdict::PutBack => guard.requeue(),
        }
    }

    fn applied(&self) -> Option<u64> {
        self.rig.fifo.store().applied_version().map(|version| version.parse().unwrap())
    }
}

fn compare(ops: &[Op], live_lane: bool, scopes: usize) -> Result<(), TestCaseError> {
    let rig = Rig::with(Mode::Fused, |builder| builder.track_applied(true).live_lane(live_lane));
    let mut run = Run {
        rig: &rig,
        account: Account::default(),
        guards: Vec::new(),
        batch: None,
        scopes: [const { None }; SCOPES.len()],
        relists: [const { None }; SCOPES.len()],
    };
    (0..scopes).for_each(|scope| run.add_scope(scope));
    for (at, op) in ops.iter().enumerate() {
        run.step(op);
        let (is, may_be) = (run.applied(), run.account.applied());
        // A key that passes the backlog may hold back more than the offers before the marker.
        prop_assert!(
            if live_lane { is <= may_be } else { is == may_be },
            "after {at}, {op:?}: {is:?}, not {may_be:?}"
        );
    }
    run.batch = None;
    while let Some(guard) = run.guards.pop() {
        run.end(guard, Verdict::Apply);
    }
    while let Some(guard) = rig.fifo.try_pop() {
        run.account.take(guard.key());
        run.end(guard, Verdict::Apply);
    }
    prop_assert_eq!(run.applied(), run.account.applied());
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_version_is_applied_exactly_when_nothing_before_its_marker_is_left(ops in vec(op(), 0..MOST)) {
        compare(&ops, false, 0)?;
    }

    #[test]
    fn with_a_live_lane_it_is_never_applied_too_early_and_never_forgotten(ops in vec(op(), 0..MOST)) {
        compare(&ops, true, 0)?;
    }

    #[test]
    fn applied_version_is_the_least_of_the_scopes(
        ops in vec(scoped_op(), 0..MOST),
        live_lane in any::<bool>(),
    ) {
        compare(&ops, live_lane, SCOPES.len())?;
    }
}
