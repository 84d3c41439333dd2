//! Tests of the protocol with its steps in random order: workers begin, store, offer to one handler
//! after the other, and end; handlers are added, walk and take. Each step is the code that runs
//! under one lock, so an order of steps is a schedule of threads.

use std::collections::{BTreeMap, BTreeSet};

use deltafifo::{DeltaObject, Indexer, KeyFunc, NoMeta};
use proptest::prelude::*;
use tokio::time::Instant;

use super::super::notification::Notification;
use super::*;
use crate::shared_informer::sync::STRIDE;

type Object = (u8, u32);

#[derive(Clone, Debug)]
enum Op {
    AddHandler(Buffer),
    /// A worker begins to store (`true`) or delete (`false`) the object of a key.
    Begin(usize, u8, bool),
    /// The first worker begins one job that stores or deletes the objects of several keys, as a
    /// relist does.
    BeginAll(Vec<(u8, bool)>),
    /// A worker makes one more step.
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
        1 => buffer.prop_map(Op::AddHandler),
        8 => (0..2_usize, 0..KEYS, any::<bool>()).prop_map(|(worker, key, stored)| Op::Begin(worker, key, stored)),
        1 => changes.prop_map(Op::BeginAll),
        40 => (0..2_usize).prop_map(Op::Work),
        30 => (0..8_usize).prop_map(Op::Take),
        1 => (0..8_usize).prop_map(Op::Resync),
    ]
}

/// The remaining work of a worker.
struct Job {
    key: Option<Arc<str>>,
    /// The keys to change, and whether each is stored or deleted.
    changes: Vec<(u8, bool)>,
    /// The stored changes that are not yet delivered.
    stored: Vec<Step<Object>>,
    /// The change that is being delivered, and the handlers that have not received it.
    delivering: Option<(Step<Object>, std::ops::Range<usize>)>,
    /// The handlers to settle at the end.
    settling: Option<std::ops::Range<usize>>,
}

/// A handler, and its expected state.
struct Handler {
    inbox: Inbox<Object>,
    known: BTreeMap<u8, u32>,
    /// The keys that were stored when the handler was added and that are not yet delivered.
    initial: BTreeSet<u8>,
    /// The keys of which the handler has been notified since the current resync began.
    resynced: Option<BTreeSet<u8>>,
}

struct World {
    store: Indexer<Object, NoMeta>,
    active_keys: ActiveKeys,
    jobs: [Option<Job>; 2],
    handlers: Vec<Handler>,
    version: u32,
}

impl World {
    fn new() -> Self {
        let store =
            Indexer::builder(KeyFunc::custom(NoMeta, |object: &Object| Ok(object.0.to_string())))
                .build();
        let store = store.expect("a store without indexes");
        (0..KEYS).step_by(2).for_each(|key| store.add(Arc::new((key, 0))).expect("a key"));
        Self {
            store,
            active_keys: ActiveKeys::new(2),
            jobs: [None, None],
            handlers: Vec::new(),
            version: 0,
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::AddHandler(buffer) if self.handlers.len() < 8 => {
                let mut inbox = Inbox::new(buffer);
                inbox.informer_has_synced();
                let initial = self.store.list().into_iter().map(|object| object.0).collect();
                self.handlers.push(Handler {
                    inbox,
                    known: BTreeMap::new(),
                    initial,
                    resynced: None,
                });
            }
            Op::AddHandler(_) => {}
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
                    handler.inbox.resync();
                }
            }
        }
    }

    fn begin(&mut self, worker: usize, key: Option<Arc<str>>, changes: Vec<(u8, bool)>) {
        self.active_keys.begin(worker, key.as_ref());
        self.jobs[worker] =
            Some(Job { key, changes, stored: Vec::new(), delivering: None, settling: None });
    }

    /// Makes one step: delivers to one handler, stores the next change, or settles one handler.
    fn work(&mut self, worker: usize) {
        let Some(mut job) = self.jobs[worker].take() else { return };
        let known = self.store.reader();
        if let Some((step, handlers)) = &mut job.delivering {
            match handlers.next() {
                Some(number) => {
                    let handler = &mut self.handlers[number];
                    handler.inbox.offer(&known, step.clone(), &mut DeferredDrops::default());
                    handler.syncs();
                }
                None => job.delivering = None,
            }
        } else if !job.stored.is_empty() && (job.key.is_some() || job.changes.is_empty()) {
            job.delivering = Some((job.stored.remove(0), 0..self.handlers.len()));
        } else if !job.changes.is_empty() {
            let (key, is_stored) = job.changes.remove(0);
            job.stored.extend(self.store(key, is_stored));
        } else if let Some(handlers) = &mut job.settling {
            let Some(number) = handlers.next() else { return };
            let handler = &mut self.handlers[number];
            handler.inbox.settle(&known, job.key.as_ref(), &mut DeferredDrops::default());
            handler.syncs();
        } else {
            if !self.active_keys.end(worker) {
                return;
            }
            job.settling = Some(0..self.handlers.len());
        }
        self.jobs[worker] = Some(job);
    }

    /// Changes the store. Returns `None` if nothing changed.
    fn store(&mut self, key: u8, is_stored: bool) -> Option<Step<Object>> {
        self.version += 1;
        let name: Arc<str> = key.to_string().into();
        let delivered = self.store.get_by_key(&name);
        let object = Arc::new((key, self.version));
        let now = if is_stored {
            self.store.add(object.clone()).expect("a key");
            CurrentState::Stored(object)
        } else {
            let last = DeltaObject::Object(delivered.clone()?);
            self.store.delete(&*object).expect("a key");
            for handler in &mut self.handlers {
                handler.initial.remove(&key);
            }
            CurrentState::Gone(last)
        };
        let since = Instant::now();
        Some(Step {
            key: name,
            delivered,
            now,
            cause: Cause::Watch,
            is_in_initial_list: false,
            is_walked: false,
            since,
        })
    }

    /// Takes the next notification of a handler. Returns whether there was one.
    fn take(&mut self, number: usize) -> bool {
        let Some(handler) = self.handlers.get_mut(number) else { return false };
        let next = handler.inbox.take(
            &self.store.reader(),
            &self.active_keys,
            &mut DeferredDrops::default(),
        );
        handler.syncs();
        match next {
            None => return false,
            Some(NextAction::Stride) => {}
            Some(NextAction::ResyncBegins) => handler.resynced = Some(BTreeSet::new()),
            Some(NextAction::ResyncEnds) => {
                let resynced = handler.resynced.take().expect("the resync has begun");
                handler.known.retain(|key, _| resynced.contains(key));
            }
            Some(NextAction::Step(step)) => {
                let key = step.key.parse().expect("a number");
                assert!(
                    !handler.initial.remove(&key) || step.is_in_initial_list,
                    "{key} is an initial object, but was delivered as a new one"
                );
                if step.is_in_initial_list {
                    handler.inbox.initial_done();
                }
                for notification in step.notifications(|_| None, |_| true).into_iter().flatten() {
                    handler.record(notification);
                }
            }
        }
        handler.syncs();
        true
    }

    /// Runs all workers and then all handlers until nothing is left, and checks what the handlers
    /// know.
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
            assert_eq!(handler.known, stored, "handler {number}");
            assert!(handler.inbox.has_synced && handler.resynced.is_none(), "handler {number}");
        }
    }
}

impl Handler {
    /// Lets the handler become synced if it can. Asserts that every initial key has then been
    /// delivered or deleted.
    fn syncs(&mut self) {
        if self.inbox.syncs() {
            assert!(self.initial.is_empty(), "synced before it was notified of {:?}", self.initial);
        }
    }

    /// Checks that a notification follows from the previous ones.
    fn record(&mut self, notification: Notification<Object>) {
        match notification {
            Notification::Added { new, .. } => {
                let before = self.known.insert(new.0, new.1);
                let is_first = self
                    .resynced
                    .as_mut()
                    .map_or(before.is_none(), |resynced| resynced.insert(new.0));
                assert!(is_first, "{new:?} is added, but the handler knows {before:?}");
            }
            Notification::Updated { old, new, .. } => {
                assert_eq!(
                    self.known.insert(new.0, new.1),
                    Some(old.1),
                    "{new:?} is updated from a state that the handler does not know"
                );
            }
            Notification::Deleted { last, .. } => {
                // The object's last state may never have been delivered.
                let (key, _) = **last.object().expect("not a tombstone");
                let was_known = self.known.remove(&key).is_some();
                assert!(
                    was_known
                        && self.resynced.as_mut().is_none_or(|resynced| resynced.remove(&key)),
                    "{key} is deleted, but the handler does not know it"
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
    fn every_handler_gets_each_change_once_and_ends_with_the_stored_state(
        ops in prop::collection::vec(op(), 0..600)
    ) {
        let mut world = World::new();
        for op in ops {
            world.run(op);
        }
        world.finish();
    }
}

/// Checks that the walk ends even if the buffer is never empty, because each delivered object is
/// changed at once. The walk ends after at most `OBJECTS + 2 * STRIDE` notifications.
#[test]
fn walk_alternates_with_buffered_notifications() {
    const OBJECTS: usize = 2_000;
    let store = Indexer::builder(KeyFunc::custom(NoMeta, |object: &(usize, usize)| {
        Ok(object.0.to_string())
    }))
    .build();
    let store = store.expect("a store without indexes");
    (0..OBJECTS).for_each(|key| store.add(Arc::new((key, 0))).expect("a key"));
    let (known, active_keys, mut drops) =
        (store.reader(), ActiveKeys::new(1), DeferredDrops::default());
    let mut inbox = Inbox::new(Buffer::Compress);
    let (mut taken, most) = (0, (OBJECTS / STRIDE + 2) * STRIDE);
    while inbox.walk.is_some() {
        assert!(taken < most, "{taken} steps were taken without a turn of the walk");
        let next = inbox.take(&known, &active_keys, &mut drops);
        let Some(NextAction::Step(Step { key, now: CurrentState::Stored(old), .. })) = next else {
            panic!("the buffer is empty")
        };
        taken += 1;
        let now = Arc::new((old.0, taken));
        store.add(now.clone()).expect("a key");
        let (delivered, now, since) = (Some(old), CurrentState::Stored(now), Instant::now());
        let cause = Cause::Watch;
        let step =
            Step { key, delivered, now, cause, is_in_initial_list: false, is_walked: false, since };
        inbox.offer(&known, step, &mut drops);
    }
    assert!(taken > OBJECTS / 2, "{taken} taken until the end of the walk");
}
