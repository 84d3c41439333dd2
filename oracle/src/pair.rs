//! Runs the engine and the model next to each other. Compares every answer, and after each step
//! the pending deltas of each key that has no running handler. Compares the lists of keys, deltas
//! and stored objects at every eighth step and at the end. One thread holds several running
//! handlers and ends them in any order, so every run is reproducible.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

use deltafifo::{
    Batch, BoxError, Delta, DeltaFifoBuilder, DeltaObject, DeltaType, ProcessError, Relist, ScopeId,
};

use crate::{
    Change, Guard, KEYS, Mode, Model, Obj, ObjMeta, Op, PARTS, Place, Rig, Setup, Step, TakenItem,
    TransformKind, Unchanged, Verdict, show, show_one, tombstone, versioned,
};

/// Runs `ops` on a queue of `mode` and on the model. `relist_threads` is the option of the queue's
/// builder ([`DeltaFifoBuilder::relist_threads`]).
///
/// # Panics
/// Panics if the two differ.
pub fn run(mode: Mode, setup: Setup, relist_threads: usize, ops: &[Op]) {
    let known: Vec<_> = setup.known_places().map(|place| place.object(0)).collect();
    let rig =
        Rig::knowing(mode, &known, |builder| build(builder, setup).relist_threads(relist_threads));
    let mut pair = Pair {
        rig: &rig,
        model: model(mode, setup, known),
        keeps_order: !setup.live_lane,
        held: Vec::new(),
        batch: None,
        relists: [const { None }; FIRST_PART + PARTS.len()],
        scopes: [const { None }; PARTS.len()],
        n: 0,
        made: Vec::new(),
    };
    for (number, op) in ops.iter().enumerate() {
        pair.step(op);
        pair.compare();
        // Comparing the whole queue and store takes most of the time of a run, so it is done at
        // every eighth step.
        if number % 8 == 0 {
            pair.compare_walks();
        }
    }
    let objects = pair.finish();
    drop(rig);
    assert!(objects.iter().all(|object| object.strong_count() == 0), "every object is released");
}

fn build(builder: DeltaFifoBuilder<Obj, ObjMeta>, setup: Setup) -> DeltaFifoBuilder<Obj, ObjMeta> {
    let builder = builder
        .emit_replaced(setup.emit_replaced)
        .skip_unchanged(setup.skip_unchanged)
        .notify_unchanged(setup.notify_unchanged)
        .live_lane(setup.live_lane);
    match refused(setup) {
        Some(key) => builder.transformer(move |object| refuse(key, object)),
        None => builder,
    }
}

fn model(mode: Mode, setup: Setup, known: Vec<Arc<Obj>>) -> Model<Obj> {
    let mut model =
        Model::new(key_of, (mode != Mode::Nowhere).then_some(known), setup.emit_replaced);
    if mode == Mode::Fused {
        model = model.unchanged(Unchanged {
            version: |object| &object.version,
            skip: setup.skip_unchanged,
            notify: setup.notify_unchanged,
        });
    }
    match refused(setup) {
        Some(key) => model.transformer(move |object| refuse(key, object)),
        None => model,
    }
}

/// Returns the key whose objects the transformer refuses. The transformer changes no object,
/// because both sides must hold the identical objects.
fn refused(setup: Setup) -> Option<&'static str> {
    match setup.transform {
        TransformKind::Fail(place) => place.key(),
        TransformKind::None | TransformKind::Tag => None,
    }
}

fn refuse(key: &str, object: Arc<Obj>) -> Result<Arc<Obj>, BoxError> {
    if key_of(&object).as_deref() == Some(key) { Err("refused".into()) } else { Ok(object) }
}

fn key_of(object: &Obj) -> Option<String> {
    if object.name.is_empty() {
        return None;
    }
    Some(if object.ns.is_empty() {
        object.name.clone()
    } else {
        format!("{}/{}", object.ns, object.name)
    })
}

/// The position in [`Pair::relists`] of the last relist of the whole queue.
const WHOLE: usize = 0;
/// The position in [`Pair::relists`] of the relist that was superseded last.
const OLD: usize = 1;
/// The position in [`Pair::relists`] of the relist of the first of the [`PARTS`]. The relists of
/// the other parts follow.
const FIRST_PART: usize = 2;

struct Pair<'f> {
    rig: &'f Rig,
    model: Model<Obj>,
    /// Whether the engine keeps the model's order across keys. Otherwise the model takes the keys
    /// that the engine takes.
    keeps_order: bool,
    /// The running handlers, each with the item that the model took for it.
    held: Vec<(Guard<'f>, TakenItem<Obj>)>,
    batch: Option<(Batch<'f, Obj, ObjMeta>, VecDeque<String>)>,
    /// The relists in pieces, each with its number in the model.
    relists: [Option<(Relist<'f, Obj, ObjMeta>, u32)>; FIRST_PART + PARTS.len()],
    /// The scopes that were last added, each with its number in the model.
    scopes: [Option<(ScopeId, u32)>; PARTS.len()],
    /// The number of the object that was created last.
    n: u64,
    made: Vec<Weak<Obj>>,
}

impl<'f> Pair<'f> {
    /// Creates a new object.
    fn object(&mut self, place: Place) -> Arc<Obj> {
        self.n += 1;
        // Few versions, so that some objects are listed unchanged. One in four has none.
        let version =
            if self.n.is_multiple_of(4) { String::new() } else { (self.n % 4).to_string() };
        let object = versioned(place.key().unwrap_or_default(), self.n, &version);
        self.made.push(Arc::downgrade(&object));
        object
    }

    fn list(&mut self, places: &[Place]) -> Vec<Arc<Obj>> {
        places.iter().map(|&place| self.object(place)).collect()
    }

    fn step(&mut self, op: &Op) {
        let fifo = &self.rig.fifo;
        match op {
            Op::Add(place) => {
                let object = self.object(*place);
                assert_eq!(fifo.add(object.clone()).is_ok(), self.model.add(object).is_ok());
            }
            Op::Update(place) => {
                let object = self.object(*place);
                assert_eq!(fifo.update(object.clone()).is_ok(), self.model.update(object).is_ok());
            }
            Op::Delete(place) => {
                let object = self.object(*place);
                assert_eq!(fifo.delete(object.clone()).is_ok(), self.model.delete(object).is_ok());
            }
            Op::DeleteTombstone(place, with) => {
                let object = with.then(|| self.object(*place));
                let tombstone = tombstone(place.key().unwrap_or_default(), object);
                assert_eq!(
                    fifo.delete(tombstone.clone()).is_ok(),
                    self.model.delete(tombstone).is_ok()
                );
            }
            Op::Batch(places) => {
                let objects = self.list(places);
                let offered = fifo.update_batch(objects.clone());
                // A batch populates the queue even if its first object is refused, as a failed add
                // does.
                if !objects.is_empty() {
                    let _ = self.model.update(crate::nameless());
                }
                let sound =
                    objects.into_iter().map_while(|object| self.model.update(object).ok()).count();
                assert_eq!(offered.is_ok(), sound == places.len());
            }
            Op::Replace(places) => {
                let list = self.list(places);
                assert_eq!(
                    fifo.replace(list.clone(), "1").ok(),
                    self.model.replace(list, "1").ok()
                );
            }
            Op::Relist(step) => self.relist(WHOLE, step),
            Op::OldRelist(step) => self.relist(OLD, step),
            Op::RelistIn(part, step) => self.relist(FIRST_PART + usize::from(*part), step),
            Op::Scope(part, change) => self.change_scope(usize::from(*part), *change),
            Op::Resync => {
                fifo.resync();
                self.model.resync();
            }
            Op::AddIfNotPresent(place, kinds) => {
                let offered: Vec<_> = kinds.iter().map(|&kind| self.delta(*place, kind)).collect();
                let added = fifo.add_if_not_present(offered.iter().cloned().collect());
                assert_eq!(
                    added.is_ok(),
                    self.model.add_if_not_present(offered.into_iter().collect()).is_ok()
                );
            }
            Op::Close => {
                fifo.close();
                self.model.close();
            }
            Op::Pop(verdict) => self.pop(*verdict),
            Op::Take => {
                if let Some((guard, taken)) = self.take() {
                    self.held.push((guard, taken));
                }
            }
            Op::End(which, verdict) => {
                if !self.held.is_empty() {
                    let (guard, taken) = self.held.remove(usize::from(*which) % self.held.len());
                    self.end(guard, taken, *verdict);
                }
            }
            Op::TakeBatch(max) => {
                self.drop_batch();
                let batch = fifo.try_pop_batch(usize::from(*max));
                let most = if self.keeps_order { usize::from(*max).max(1) } else { 0 };
                let keys = self.model.pop_batch(most);
                assert!(!self.keeps_order || batch.as_ref().map_or(0, Batch::len) == keys.len());
                self.batch = batch.map(|batch| (batch, keys));
            }
            Op::Next => {
                if let Some((batch, keys)) = &mut self.batch {
                    let guard = batch.next();
                    let taken = match &guard {
                        Some(guard) if !self.keeps_order => self.model.pop_key(guard.key()),
                        _ => keys.pop_front().and_then(|key| self.model.take(&key)),
                    };
                    self.held.extend(checked(guard, taken));
                }
            }
            Op::DropBatch => self.drop_batch(),
        }
    }

    /// Creates a delta as a caller of `add_if_not_present` would. `kind` is one of the kinds of
    /// [`Op::AddIfNotPresent`].
    fn delta(&mut self, place: Place, kind: u8) -> Delta<Obj> {
        let object = self.object(place);
        let kind = match kind {
            0 => DeltaType::Added,
            1 => DeltaType::Updated,
            2 => DeltaType::Deleted,
            3 => DeltaType::Replaced,
            4 => DeltaType::Sync,
            _ => {
                return Delta::new(
                    DeltaType::Deleted,
                    tombstone(place.key().unwrap_or_default(), Some(object)),
                );
            }
        };
        Delta::new(kind, object)
    }

    /// Runs a step of the relist at position `which` in [`Pair::relists`].
    fn relist(&mut self, which: usize, step: &Step) {
        if *step == Step::Begin {
            return self.begin(if which == OLD { WHOLE } else { which });
        }
        let Some((mut relist, number)) = self.relists[which].take() else { return };
        match step {
            Step::Begin => {}
            Step::Page(places) => {
                let page = self.list(places);
                self.page(&mut relist, number, page);
            }
            Step::Probe(places) => {
                let page: Vec<_> = self
                    .list(places)
                    .into_iter()
                    .filter(|object| !object.name.is_empty())
                    .collect();
                let keys: Vec<_> = page.iter().filter_map(|object| key_of(object)).collect();
                let listed: Vec<_> = keys
                    .iter()
                    .zip(&page)
                    .map(|(key, object)| (&**key, &*object.version))
                    .collect();
                let needed = relist.probe(&listed).ok();
                assert_eq!(needed, self.model.probe(number, &listed).ok());
                let needed = page.into_iter().zip(needed.into_iter().flatten());
                let page =
                    needed.filter_map(|(object, is_needed)| is_needed.then_some(object)).collect();
                self.page(&mut relist, number, page);
            }
            Step::Keep(place) => {
                let key = place.key().unwrap_or_default();
                assert_eq!(relist.keep(key).is_ok(), self.model.keep(number, key).is_ok());
            }
            Step::Delete(place) => {
                let object = self.object(*place);
                let deleted = relist.delete(object.clone());
                assert_eq!(deleted.is_ok(), self.model.delete_in(number, object).is_ok());
            }
            Step::DeleteTombstone(place) => {
                let tombstone = tombstone(place.key().unwrap_or_default(), None);
                assert_eq!(
                    relist.delete(tombstone.clone()).is_ok(),
                    self.model.delete_in(number, tombstone).is_ok()
                );
            }
            Step::Commit => {
                // The versions of a scope's lists go up and down.
                let version =
                    if which < FIRST_PART { "2".to_owned() } else { (self.n % 5).to_string() };
                let committed = relist.commit(&version).ok();
                return assert_eq!(committed, self.model.commit(number, &version).ok());
            }
            Step::Abandon => {
                drop(relist);
                return self.model.abandon(number);
            }
        }
        self.put_relist(which, Some((relist, number)));
    }

    /// Begins the relist at position `which` in [`Pair::relists`]: one of the whole queue, or one
    /// of a scope. The relist that is superseded is kept, so that later steps can use it.
    fn begin(&mut self, which: usize) {
        let begun = if let Some(part) = which.checked_sub(FIRST_PART) {
            let Some((scope, number)) = &self.scopes[part] else { return };
            (self.rig.fifo.begin_replace_in(scope), self.model.begin_replace_in(*number))
        } else {
            (self.rig.fifo.begin_replace(), self.model.begin_replace())
        };
        if let Some(superseded) = self.relists[which].replace(begun) {
            self.put_relist(OLD, Some(superseded));
        }
    }

    fn change_scope(&mut self, part: usize, change: Change) {
        let fifo = &self.rig.fifo;
        match (change, &self.scopes[part]) {
            (Change::Add, _) => {
                let added = fifo.add_scope(PARTS[part].scope());
                match (added, self.model.add_scope(PARTS[part])) {
                    (Ok(scope), Ok(number)) => self.scopes[part] = Some((scope, number)),
                    (Err(_), Err(_)) => {}
                    (added, modelled) => panic!("{added:?}, not {modelled:?}"),
                }
            }
            (Change::Remove, Some((scope, number))) => {
                let removed = fifo.remove_scope(scope).ok();
                assert_eq!(removed, self.model.remove_scope(*number).ok());
            }
            (Change::Waive, Some((scope, number))) => {
                fifo.waive_scope(scope);
                self.model.waive_scope(*number);
            }
            (Change::Await, Some((scope, number))) => {
                fifo.await_scope(scope);
                self.model.await_scope(*number);
            }
            (Change::Remove | Change::Waive | Change::Await, None) => {}
        }
    }

    fn put_relist(&mut self, which: usize, relist: Option<(Relist<'f, Obj, ObjMeta>, u32)>) {
        if let Some((relist, number)) = std::mem::replace(&mut self.relists[which], relist) {
            drop(relist);
            self.model.abandon(number);
        }
    }

    fn page(&mut self, relist: &mut Relist<'f, Obj, ObjMeta>, number: u32, page: Vec<Arc<Obj>>) {
        let refused = relist.offer(page.clone()).ok();
        let places = refused.map(|refused| refused.iter().map(|refused| refused.index).collect());
        assert_eq!(places, self.model.offer_page(number, page).ok());
    }

    fn pop(&mut self, verdict: Verdict) {
        let by_closure = matches!(verdict, Verdict::Fail | Verdict::FailAndRetry | Verdict::Panic);
        if !by_closure || !self.keeps_order {
            if let Some((guard, taken)) = self.take() {
                self.end(guard, taken, verdict);
            }
            return;
        }
        let Some(taken) = self.model.pop() else {
            return assert!(self.rig.fifo.try_pop().is_none());
        };
        let failed = self.rig.fifo.process(|guard| {
            check(guard, &taken);
            match verdict {
                Verdict::Panic => quiet_panic(),
                Verdict::FailAndRetry => guard.retry(),
                _ => {}
            }
            Err::<(), _>("no")
        });
        match failed {
            Err(ProcessError::Handler { key, .. }) => {
                assert!(key == taken.key && verdict != Verdict::Panic);
            }
            Err(ProcessError::Panicked { key, message }) => {
                assert!(key == taken.key && verdict == Verdict::Panic, "{message}");
            }
            Ok(()) | Err(ProcessError::Closed(_)) => {
                panic!("the handler failed, and the pop returned {failed:?}")
            }
        }
        self.model.end(taken, verdict.puts_back());
    }

    /// Takes the next key of both the engine and the model.
    fn take(&mut self) -> Option<(Guard<'f>, TakenItem<Obj>)> {
        let guard = self.rig.fifo.try_pop();
        let taken = match &guard {
            Some(guard) if !self.keeps_order => self.model.pop_key(guard.key()),
            // All remaining keys may be in the batch.
            None if !self.keeps_order && self.batch.is_some() => None,
            _ => self.model.pop(),
        };
        checked(guard, taken)
    }

    fn end(&mut self, mut guard: Guard<'f>, taken: TakenItem<Obj>, verdict: Verdict) {
        if verdict.applies() {
            self.model.apply(&taken);
        }
        match verdict {
            Verdict::ApplyAndPanic if self.rig.mode == Mode::Fused => {
                let applied =
                    catch_unwind(AssertUnwindSafe(move || guard.apply(|_| quiet_panic())));
                assert!(applied.is_err(), "there is a first change");
            }
            Verdict::Apply | Verdict::ApplyAndPanic => {
                self.rig.apply(&mut guard);
                guard.done();
            }
            Verdict::Done | Verdict::Fail => guard.done(),
            Verdict::FailAndRetry => {
                guard.retry();
                guard.done();
            }
            Verdict::Panic => {
                let panicked = catch_unwind(AssertUnwindSafe(move || {
                    let _guard = guard;
                    quiet_panic();
                }));
                assert!(panicked.is_err());
            }
            Verdict::Requeue => guard.requeue(),
            Verdict::Drop => drop(guard),
        }
        self.model.end(taken, verdict.puts_back());
    }

    fn drop_batch(&mut self) {
        if let Some((batch, keys)) = self.batch.take() {
            assert!(!self.keeps_order || batch.len() == keys.len());
            drop(batch);
            self.model.give_back(keys);
        }
    }

    fn compare(&self) {
        let (rig, model) = (self.rig, &self.model);
        // The engine settles the marks of a batch together, so it may sync later than the model
        // while a batch is open.
        assert!(
            self.batch.is_some() || rig.fifo.has_synced() || !model.has_synced(),
            "the engine has not synced although the model has"
        );
        assert!(
            model.has_synced() || !rig.fifo.has_synced(),
            "the engine has synced although the model has not"
        );
        assert_eq!(rig.fifo.is_closed(), model.is_closed());
        assert_eq!(rig.fifo.resource_version(), model.resource_version());
        // Keys whose handlers run are not compared: the rules for deltas that arrive during a
        // handler are applied when it ends.
        let is_idle = |key: &str| !model.is_running(key);
        for key in KEYS.into_iter().filter(|key| is_idle(key)) {
            let (pending, modelled) = (rig.fifo.get_by_key(key), model.pending(key));
            assert_eq!(pending.is_some(), modelled.is_some(), "get {key}");
            check_deltas(pending.as_deref().unwrap_or_default(), modelled.unwrap_or_default());
        }
        if rig.mode == Mode::Fused {
            let store = rig.fifo.store();
            assert_eq!(
                KEYS.map(|key| store.get_by_key(key).map(|object| object.n)),
                KEYS.map(|key| model.known_object(key).map(|object| object.n))
            );
        }
    }

    fn compare_walks(&self) {
        let (rig, model) = (self.rig, &self.model);
        let mut keys = rig.fifo.list_keys();
        keys.retain(|key| !model.is_running(key));
        keys.sort();
        assert_eq!(keys, model.list_keys());
        if self.held.is_empty() {
            let shown = |deltas: Vec<Delta<Obj>>| {
                let mut shown: Vec<_> = deltas.iter().map(show_one).collect();
                shown.sort();
                shown
            };
            assert_eq!(shown(rig.fifo.list()), shown(model.list()));
        }
        if rig.mode != Mode::Nowhere {
            let mut known: Vec<_> =
                model.known().map(|(key, object)| format!("{key}={}", object.n)).collect();
            known.sort();
            assert_eq!(rig.stored(), known);
        }
    }

    /// Ends all running handlers, handles the rest, and returns all objects that were created.
    fn finish(mut self) -> Vec<Weak<Obj>> {
        self.compare_walks();
        (0..self.relists.len()).for_each(|which| self.put_relist(which, None));
        self.drop_batch();
        while let Some((guard, taken)) = self.held.pop() {
            self.end(guard, taken, Verdict::Apply);
            self.compare();
        }
        while let Some((guard, taken)) = self.take() {
            self.end(guard, taken, Verdict::Apply);
            self.compare();
        }
        self.compare_walks();
        assert!(self.rig.fifo.try_pop().is_none());
        assert_eq!(self.rig.fifo.pending_deltas(), 0);
        if self.rig.mode == Mode::Fused {
            assert_eq!(self.rig.fifo.store().len(), self.model.known().count());
        }
        self.made
    }
}

/// Checks that the engine and the model took equal items, or none.
fn checked(
    guard: Option<Guard<'_>>,
    taken: Option<TakenItem<Obj>>,
) -> Option<(Guard<'_>, TakenItem<Obj>)> {
    match (guard, taken) {
        (Some(guard), Some(taken)) => {
            check(&guard, &taken);
            Some((guard, taken))
        }
        (guard, taken) => {
            assert!(guard.is_none() && taken.is_none(), "one of the two has nothing");
            None
        }
    }
}

/// Checks that the taken items are equal.
fn check(guard: &Guard<'_>, taken: &TakenItem<Obj>) {
    assert_eq!(guard.key(), taken.key);
    check_deltas(guard.deltas(), &taken.deltas);
    assert_eq!(
        guard.is_in_initial_list(),
        taken.is_in_initial_list,
        "is_in_initial_list of {}",
        taken.key
    );
}

/// Checks that the engine and the model hold the identical objects, and equal causes of deletions.
/// Nothing is formatted for the comparison.
fn check_deltas(got: &[Delta<Obj>], want: &[Delta<Obj>]) {
    let same = |(got, want): (&Delta<Obj>, &Delta<Obj>)| {
        let objects = (got.object.object().map(Arc::as_ptr), want.object.object().map(Arc::as_ptr));
        got.kind == want.kind && cause(&got.object) == cause(&want.object) && objects.0 == objects.1
    };
    assert!(
        got.len() == want.len() && got.iter().zip(want).all(same),
        "{}, not {}",
        show(got),
        show(want)
    );
}

/// Returns whether a tombstone says that its scope was removed; `None` for an object.
fn cause(deleted: &DeltaObject<Obj>) -> Option<bool> {
    match deleted {
        DeltaObject::Object(_) => None,
        DeltaObject::Tombstone(last) => Some(last.scope_removed),
    }
}

/// Panics without calling the panic hook. The hook's messages would fill the output, and the hook
/// ends a fuzzer's run.
fn quiet_panic() {
    resume_unwind(Box::new("expected by this test"))
}
