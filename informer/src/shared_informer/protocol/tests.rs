//! The protocol in any order of its steps: workers that begin, store, tell one handler after the
//! other and end; handlers that come, walk and take. Each step is what runs under one lock, so an
//! order of steps is a schedule of threads.

use std::collections::{BTreeMap, BTreeSet};

use deltafifo::{DeltaObject, Indexer, KeyFunc, NoMeta};
use proptest::prelude::*;
use tokio::time::Instant;

use super::super::notification::Notification;
use super::super::sync::STRIDE;
use super::*;

type Object = (u8, u32);

#[derive(Clone, Debug)]
enum Op {
    Come(Buffer),
    /// A worker takes a change of a key in hand; what it is to be stored as is a matter of chance.
    Begin(usize, u8, bool),
    /// The first worker takes all of them in hand.
    BeginAll(Vec<(u8, bool)>),
    /// A worker goes one step on.
    Work(usize),
    Take(usize),
    Resync(usize),
}

const KEYS: u8 = 200;

fn op() -> impl Strategy<Value = Op> {
    let buffer = prop_oneof![
        Just(Buffer::Compress),
        Just(Buffer::HoldBack(3)),
        (1..40_usize).prop_map(Buffer::DropAndResync),
    ];
    let changes = prop::collection::vec((0..KEYS, any::<bool>()), 1..8);
    prop_oneof![
        1 => buffer.prop_map(Op::Come),
        8 => (0..2_usize, 0..KEYS, any::<bool>()).prop_map(|(worker, key, stored)| Op::Begin(worker, key, stored)),
        1 => changes.prop_map(Op::BeginAll),
        40 => (0..2_usize).prop_map(Op::Work),
        30 => (0..8_usize).prop_map(Op::Take),
        1 => (0..8_usize).prop_map(Op::Resync),
    ]
}

/// What a worker has still to do.
struct Job {
    key: Option<Arc<str>>,
    /// Keys to be changed, and whether to something.
    changes: Vec<(u8, bool)>,
    /// Stored, and to be told.
    stored: Vec<Step<Object>>,
    /// What is told now, and who is told it next.
    telling: Option<(Step<Object>, std::ops::Range<usize>)>,
    /// Who is to settle, at the end.
    settling: Option<std::ops::Range<usize>>,
}

struct Handler {
    intake: Intake<Object>,
    told: BTreeMap<u8, u32>,
    /// Stored since before it came, and not told yet: what is initial to it.
    initial: BTreeSet<u8>,
    /// Keys told since a resync has begun.
    anew: Option<BTreeSet<u8>>,
}

struct World {
    store: Indexer<Object, NoMeta>,
    desks: Desks,
    jobs: [Option<Job>; 2],
    handlers: Vec<Handler>,
    version: u32,
}

impl World {
    fn new() -> Self {
        let store =
            Indexer::builder(KeyFunc::custom(NoMeta, |object: &Object| Ok(object.0.to_string())))
                .build();
        let store = store.expect("it has no indexes");
        (0..KEYS).step_by(2).for_each(|key| store.add(Arc::new((key, 0))).expect("it has a key"));
        Self { store, desks: Desks::new(2), jobs: [None, None], handlers: Vec::new(), version: 0 }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Come(buffer) if self.handlers.len() < 8 => {
                let mut intake = Intake::new(buffer);
                intake.informer_has_synced();
                let initial = self.store.list().into_iter().map(|object| object.0).collect();
                self.handlers.push(Handler { intake, told: BTreeMap::new(), initial, anew: None });
            }
            Op::Come(_) => {}
            Op::Begin(worker, key, stored) => {
                let name: Arc<str> = key.to_string().into();
                let others = self.jobs.iter().flatten();
                let is_free = self.jobs[worker].is_none()
                    && others
                        .clone()
                        .all(|job| job.key.as_ref().is_some_and(|other| *other != name));
                if is_free {
                    self.begin(worker, Some(name), vec![(key, stored), (key, true)]);
                }
            }
            Op::BeginAll(changes) => {
                if self.jobs.iter().all(Option::is_none) {
                    self.begin(0, None, changes);
                }
            }
            Op::Work(worker) => self.work(worker),
            Op::Take(number) => {
                self.take(number);
            }
            Op::Resync(number) => {
                if let Some(handler) = self.handlers.get_mut(number) {
                    handler.intake.resync();
                }
            }
        }
    }

    fn begin(&mut self, worker: usize, key: Option<Arc<str>>, changes: Vec<(u8, bool)>) {
        self.desks.begin(worker, key.as_ref());
        self.jobs[worker] =
            Some(Job { key, changes, stored: Vec::new(), telling: None, settling: None });
    }

    /// One step: a handler is told, or the next change stored; or a handler is settled with.
    fn work(&mut self, worker: usize) {
        let Some(mut job) = self.jobs[worker].take() else { return };
        let known = self.store.reader();
        if let Some((step, handlers)) = &mut job.telling {
            match handlers.next() {
                Some(number) => {
                    let handler = &mut self.handlers[number];
                    handler.intake.offer(&known, step.clone(), &mut Spent::default());
                    handler.syncs();
                }
                None => job.telling = None,
            }
        } else if !job.stored.is_empty() && (job.key.is_some() || job.changes.is_empty()) {
            job.telling = Some((job.stored.remove(0), 0..self.handlers.len()));
        } else if !job.changes.is_empty() {
            let (key, is_stored) = job.changes.remove(0);
            job.stored.extend(self.store(key, is_stored));
        } else if let Some(handlers) = &mut job.settling {
            let Some(number) = handlers.next() else { return };
            let handler = &mut self.handlers[number];
            handler.intake.settle(&known, job.key.as_ref(), &mut Spent::default());
            handler.syncs();
        } else {
            if !self.desks.end(worker) {
                return;
            }
            job.settling = Some(0..self.handlers.len());
        }
        self.jobs[worker] = Some(job);
    }

    /// Changes the store. Nothing: it is as it was.
    fn store(&mut self, key: u8, is_stored: bool) -> Option<Step<Object>> {
        self.version += 1;
        let name: Arc<str> = key.to_string().into();
        let told = self.store.get_by_key(&name);
        let object = Arc::new((key, self.version));
        let now = if is_stored {
            self.store.add(object.clone()).expect("it has a key");
            Now::Stored(object)
        } else {
            let last = DeltaObject::Object(told.clone()?);
            self.store.delete(&*object).expect("it has a key");
            for handler in &mut self.handlers {
                handler.initial.remove(&key);
            }
            Now::Gone(last)
        };
        let since = Instant::now();
        Some(Step {
            key: name,
            told,
            now,
            cause: Cause::Watch,
            is_in_initial_list: false,
            is_walked: false,
            since,
        })
    }

    /// A handler takes what is next. Whether there was something.
    fn take(&mut self, number: usize) -> bool {
        let Some(handler) = self.handlers.get_mut(number) else { return false };
        let next = handler.intake.take(&self.store.reader(), &self.desks, &mut Spent::default());
        handler.syncs();
        match next {
            None => return false,
            Some(Next::Stride) => {}
            Some(Next::ResyncBegins) => handler.anew = Some(BTreeSet::new()),
            Some(Next::ResyncEnds) => {
                let anew = handler.anew.take().expect("it has begun");
                handler.told.retain(|key, _| anew.contains(key));
            }
            Some(Next::Step(step)) => {
                let key = step.key.parse().expect("it is a number");
                assert!(
                    !handler.initial.remove(&key) || step.is_in_initial_list,
                    "{key} is told as if it were new"
                );
                if step.is_in_initial_list {
                    handler.intake.initial_done();
                }
                for notification in step.notifications(|_| None, |_| true).into_iter().flatten() {
                    handler.note(notification);
                }
            }
        }
        handler.syncs();
        true
    }

    /// Everybody comes to an end.
    fn finish(mut self) {
        for worker in [0, 1] {
            while self.jobs[worker].is_some() {
                self.work(worker);
            }
        }
        let stored: BTreeMap<_, _> = self.store.list().iter().map(|object| **object).collect();
        for number in 0..self.handlers.len() {
            while self.take(number) {}
            let handler = &self.handlers[number];
            assert_eq!(handler.told, stored, "handler {number}");
            assert!(handler.intake.has_synced && handler.anew.is_none(), "handler {number}");
        }
    }
}

impl Handler {
    /// As after each step of it: it syncs with all that is initial told, or gone.
    fn syncs(&mut self) {
        if self.intake.syncs() {
            assert!(self.initial.is_empty(), "synced before it was told of {:?}", self.initial);
        }
    }

    /// Every notification goes on from what was told before.
    fn note(&mut self, notification: Notification<Object>) {
        match notification {
            Notification::Added { new, .. } => {
                let before = self.told.insert(new.0, new.1);
                let is_first =
                    self.anew.as_mut().map_or(before.is_none(), |anew| anew.insert(new.0));
                assert!(is_first, "{new:?} added over {before:?}");
            }
            Notification::Updated { old, new, .. } => {
                assert_eq!(
                    self.told.insert(new.0, new.1),
                    Some(old.1),
                    "{new:?} over what it was not told"
                );
            }
            Notification::Deleted { last, .. } => {
                // Its last state may never have been told.
                let (key, _) = **last.object().expect("it is no tombstone");
                let was_told = self.told.remove(&key).is_some();
                assert!(
                    was_told && self.anew.as_mut().is_none_or(|anew| anew.remove(&key)),
                    "{key} was not told"
                );
            }
            Notification::ResyncBegins | Notification::ResyncEnds => {
                unreachable!("a step is none of these")
            }
        }
    }
}

proptest! {
    #[test]
    fn every_handler_is_told_each_change_once_and_ends_with_what_is_stored(
        ops in prop::collection::vec(op(), 0..600)
    ) {
        let mut world = World::new();
        for op in ops {
            world.run(op);
        }
        world.finish();
    }
}

/// Who changes what it was told at once has always as much waiting: its walk has a turn for each
/// stride of what it is told, no more and no fewer.
#[test]
fn a_walk_takes_turns_with_what_waits() {
    const OBJECTS: usize = 2_000;
    let store = Indexer::builder(KeyFunc::custom(NoMeta, |object: &(usize, usize)| {
        Ok(object.0.to_string())
    }))
    .build();
    let store = store.expect("it has no indexes");
    (0..OBJECTS).for_each(|key| store.add(Arc::new((key, 0))).expect("it has a key"));
    let (known, desks, mut spent) = (store.reader(), Desks::new(1), Spent::default());
    let mut intake = Intake::new(Buffer::Compress);
    let (mut taken, most) = (0, (OBJECTS / STRIDE + 2) * STRIDE);
    while intake.walk.is_some() {
        assert!(taken < most, "{taken} taken, and the walk has no turn");
        let next = intake.take(&known, &desks, &mut spent);
        let Some(Next::Step(Step { key, now: Now::Stored(old), .. })) = next else {
            panic!("something waits")
        };
        taken += 1;
        let now = Arc::new((old.0, taken));
        store.add(now.clone()).expect("it has a key");
        let (told, now, since) = (Some(old), Now::Stored(now), Instant::now());
        let cause = Cause::Watch;
        let step =
            Step { key, told, now, cause, is_in_initial_list: false, is_walked: false, since };
        intake.offer(&known, step, &mut spent);
    }
    assert!(taken > OBJECTS / 2, "{taken} taken until the end of the walk");
}
