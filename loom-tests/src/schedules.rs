//! Random schedules of a queue under eight threads with hundreds of operations. The loom models
//! check a few steps exhaustively; these schedules check many operations together.
//!
//! The oracle: each producer owns its keys. The handlers of a key must therefore have seen the
//! offers of its producer in order, merged only as client-go merges them, and the store must end
//! with the state of the last offer. Relists also list some of the producers' keys; the changes
//! that they cause appear between the producer's offers.

use std::collections::BTreeMap;
use std::sync::{Arc as StdArc, Mutex as StdMutex};

use deltafifo::{
    BoxError, DeltaFifo, DeltaFifoBuilder, DeltaType, KeyFunc, KnownObjects, Relist, RelistError,
    mutants,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;
use shuttle::thread;

use crate::rig::{
    Access, Exclusive, Fifo, Item, Object, PARITY, VERSIONS, indexed_with, parity, show_all,
};

/// The keys of each producer. The two keys of a producer are in different shards.
const OWNED: [[&str; 2]; 3] = [["a", "b"], ["c", "d"], ["e", "f"]];
/// The producers' keys that relists list as well.
const SHARED: [&str; 3] = ["b", "d", "f"];
/// The keys that only relists write.
const LISTED: [&str; 3] = ["x", "y", "z"];
const OFFERS: usize = 25;
const RELISTS: usize = 6;
const READS: usize = 25;

/// A change of a key that was offered, or that a handler got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Written(usize),
    Deleted,
}

#[derive(Default)]
struct KeyChanges {
    offered: Vec<Step>,
    /// The changes that handlers saw, without those that relists made to a producer's key.
    handled: Vec<Step>,
    /// The last change that any handler saw.
    last: Option<Step>,
    exclusive: StdArc<Exclusive>,
}

/// A store that is not fused with the queue. It is behind a std lock: a lock of shuttle could
/// synchronise threads that the queue fails to synchronise.
#[derive(Default)]
struct ExternalStore(StdMutex<BTreeMap<String, Arc<Object>>>);

impl KnownObjects<Object> for ExternalStore {
    fn list_keys(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Object>>, BoxError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }
}

/// A queue of a kind that is chosen for each schedule, with its keys. Its high-water mark is 1, so
/// there is room only when it is empty.
struct QueueWorld {
    fifo: Fifo,
    /// The external store, or `None` if the queue is fused with a store.
    outside: Option<StdArc<ExternalStore>>,
    /// The state of each key, behind a std lock: a lock of shuttle could synchronise threads that
    /// the queue fails to synchronise. No shuttle operation may run while the lock is held.
    keys: StdMutex<BTreeMap<&'static str, KeyChanges>>,
}

impl QueueWorld {
    fn new() -> Self {
        let all = OWNED.iter().flatten().chain(&LISTED);
        let keys = StdMutex::new(all.map(|key| (*key, KeyChanges::default())).collect());
        let kind = thread_rng().gen_range(0..5);
        let options = |builder: DeltaFifoBuilder<Object, Access>| {
            let builder = builder.high_water(1);
            match kind {
                0 => builder.live_lane(thread_rng().gen_bool(0.5)),
                1 => builder.live_lane(true),
                2 => builder.live_lane(true).skip_unchanged(true),
                3 => builder.notify_unchanged(true),
                _ => builder,
            }
        };
        let outside = (kind == 0).then(StdArc::<ExternalStore>::default);
        let fifo = match &outside {
            Some(outside) => options(
                DeltaFifo::builder(KeyFunc::meta_namespace(Access)).known_objects(outside.clone()),
            )
            .build(),
            None => indexed_with(options),
        };
        Self { fifo, outside, keys }
    }

    fn apply(&self, item: &mut Item<'_>) {
        let Some(outside) = &self.outside else { return item.apply(|_| {}).unwrap() };
        let mut objects = outside.0.lock().unwrap();
        for delta in item.deltas() {
            match delta.object.object() {
                Some(object) if delta.kind != DeltaType::Deleted => {
                    objects.insert(item.key().to_owned(), object.clone())
                }
                _ => objects.remove(item.key()),
            };
        }
    }

    /// Returns the contents of the store, sorted: `a1 b2`.
    fn stored(&self) -> String {
        show_all(&match &self.outside {
            Some(outside) => outside.0.lock().unwrap().values().cloned().collect(),
            None => self.fifo.store().list(),
        })
    }
}

pub fn everything() {
    let world = Arc::new(QueueWorld::new());
    let spawn = |work: Box<dyn FnOnce(&QueueWorld) + Send>| {
        let world = world.clone();
        thread::spawn(move || work(&world))
    };
    let mut workers = Vec::new();
    for owned in OWNED {
        workers.push(spawn(Box::new(move |world| produce(world, owned))));
    }
    for relister in 0..2 {
        workers.push(spawn(Box::new(move |world| relist(world, relister))));
    }
    workers.push(spawn(Box::new(read)));
    let consumers = [(); 2].map(|()| spawn(Box::new(|world| while consume(world) {})));

    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let fifo = &world.fifo;
    let expected = last(&world);
    // The queue is closed only after the consumers have taken everything: closing wakes them even
    // if no push did.
    fifo.ready().unwrap();
    fifo.close();
    consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
    // Handle the deltas that a consumer put back after the others had ended.
    while let Some(item) = fifo.try_pop() {
        handled(item, &world);
    }

    assert_eq!(fifo.pending_deltas(), 0);
    assert!(fifo.has_synced());
    for (key, steps) in world.keys.lock().unwrap().iter().filter(|(key, _)| !LISTED.contains(key)) {
        let explained = if SHARED.contains(key) { explains_shared } else { explains };
        assert!(
            explained(&steps.offered, &steps.handled),
            "{key}: {:?} was {:?}",
            steps.offered,
            steps.handled
        );
    }
    assert_eq!(world.stored(), expected.join(" "));
    let known = if world.outside.is_none() { expected.len() } else { 0 };
    assert_eq!(mutants::slots(fifo), known, "a slot without an object is left");
}

/// Runs the last relist, after all offers. Returns the objects that must be stored after it.
///
/// The relist keeps the keys that only producers write. It lists a shared key if the last offer
/// for it was a write, so it deletes the shared keys that only a relist has added.
fn last(world: &QueueWorld) -> Vec<String> {
    let left = |(key, notes): (&&'static str, &KeyChanges)| (*key, notes.offered.last().copied());
    let left: Vec<_> = world
        .keys
        .lock()
        .unwrap()
        .iter()
        .map(left)
        .filter(|(key, _)| !LISTED.contains(key))
        .collect();
    let (mut relist, mut page) = (world.fifo.begin_replace(), vec![Object::new("x", 1)]);
    let mut expected = vec!["x1".to_owned()];
    for (key, last) in left {
        if !SHARED.contains(&key) {
            relist.keep(key).unwrap();
        }
        if let Some(Step::Written(number)) = last {
            expected.push(format!("{key}{number}"));
            if SHARED.contains(&key) {
                page.push(Object::new(key, number));
            }
        }
    }
    relist.offer(page).unwrap();
    relist.commit("last").unwrap();
    expected.sort_unstable();
    expected
}

fn produce(world: &QueueWorld, owned: [&'static str; 2]) {
    for number in 1..=OFFERS {
        let key = owned[thread_rng().gen_range(0..2)];
        let dice = thread_rng().gen_range(0..8);
        let step = if dice < 6 { Step::Written(number) } else { Step::Deleted };
        world.keys.lock().unwrap().get_mut(key).unwrap().offered.push(step);
        let object = Object::new(key, number);
        match dice {
            0..3 => world.fifo.add(object).unwrap(),
            3..5 => world.fifo.update(object).unwrap(),
            5 => world.fifo.update_batch(vec![object]).unwrap(),
            _ => world.fifo.delete(object).unwrap(),
        }
    }
}

/// Lists the keys of `LISTED` and some of the producers' keys, and keeps the others. Two threads
/// run this and supersede each other.
fn relist(world: &QueueWorld, relister: usize) {
    for number in 0..RELISTS {
        let relist = world.fifo.begin_replace();
        // Sometimes use the version that is already known.
        let number =
            if thread_rng().gen_bool(0.7) { number } else { 100 * (1 + relister) + number };
        // An error means that the relist was superseded. The other thread's relist is still to be
        // committed then.
        let _ = offer(relist, number);
        world.fifo.resync();
    }
}

fn offer(mut relist: Relist<'_, Object, Access>, number: usize) -> Result<(), RelistError> {
    let (mut listed, mut kept) = (Vec::new(), Vec::new());
    for key in OWNED.iter().flatten().chain(&LISTED) {
        match SHARED.contains(key) || LISTED.contains(key) {
            true if thread_rng().gen_bool(0.6) => listed.push(*key),
            _ if !LISTED.contains(key) => kept.push(*key),
            _ => {}
        }
    }
    for key in kept {
        relist.keep(key)?;
    }
    for page in listed.chunks(4) {
        let version = VERSIONS.get(number).copied().unwrap_or_default();
        let asked: Vec<_> = page.iter().map(|key| (*key, version)).collect();
        let needed =
            if thread_rng().gen_bool(0.3) { relist.probe(&asked)? } else { vec![true; page.len()] };
        let page = page
            .iter()
            .zip(needed)
            .filter(|(_, needed)| *needed)
            .map(|(key, _)| Object::new(key, number));
        relist.offer(page.collect())?;
    }
    if thread_rng().gen_bool(0.8) {
        relist.commit("some")?;
    }
    Ok(())
}

fn read(world: &QueueWorld) {
    let (fifo, store) = (&world.fifo, world.fifo.store());
    for _ in 0..READS {
        for value in ["even", "odd"] {
            for object in if world.outside.is_none() {
                store.by_index(PARITY, value).unwrap()
            } else {
                Vec::new()
            } {
                object.read();
                assert_eq!(parity(&object), value, "an object under a value that it does not have");
            }
        }
        store.get_by_key("a").inspect(|object| assert_eq!(object.key, "a"));
        for key in ["a", "b"] {
            if let Some(deltas) = fifo.get_by_key(key) {
                assert!(!deltas.is_empty());
            }
        }
        fifo.list_keys();
    }
}

/// Takes one key or a batch, and handles it. Returns `false` once the queue is closed and empty.
fn consume(world: &QueueWorld) -> bool {
    if thread_rng().gen_bool(0.5) {
        let Ok(item) = world.fifo.pop() else { return false };
        handle(item, world);
        return true;
    }
    let Ok(mut batch) = world.fifo.pop_batch(3) else { return false };
    while let Some(item) = batch.next() {
        handle(item, world);
        if thread_rng().gen_bool(0.1) {
            break;
        }
    }
    true
}

fn handle(item: Item<'_>, world: &QueueWorld) {
    match thread_rng().gen_range(0..10) {
        0 => item.requeue(),
        1 => drop(item),
        _ => handled(item, world),
    }
}

fn handled(mut item: Item<'_>, world: &QueueWorld) {
    let key =
        OWNED.iter().flatten().chain(&LISTED).copied().find(|key| *key == item.key()).unwrap();
    let exclusive = world.keys.lock().unwrap()[key].exclusive.clone();
    exclusive.handle(|| {
        assert!(!item.deltas().is_empty(), "a pop returned no deltas");
        let mut keys = world.keys.lock().unwrap();
        let notes = keys.get_mut(key).unwrap();
        let known = notes.last;
        for delta in item.deltas() {
            let step = match delta.kind {
                DeltaType::Deleted => Step::Deleted,
                _ => Step::Written(delta.object.object().unwrap().number),
            };
            match delta.kind {
                DeltaType::Sync => assert_eq!(Some(step), known, "a stale Sync of {key}"),
                DeltaType::Replaced => {
                    assert!(LISTED.contains(&key) || SHARED.contains(&key), "{key} was not listed")
                }
                _ => notes.handled.push(step),
            }
            notes.last = Some(step);
        }
        drop(keys);
        world.apply(&mut item);
    });
    item.done();
}

/// Checks like [`explains`], for a key that relists also list and delete. A deletion before the
/// first write may follow an object that a relist brought, and the last deletion may come from a
/// relist.
fn explains_shared(offered: &[Step], handled: &[Step]) -> bool {
    let explained = |handled: &[Step]| {
        let first =
            |steps: &[Step]| steps.iter().take_while(|step| **step == Step::Deleted).count();
        let (before, seen) = (first(offered), first(handled));
        seen <= before && explains(&offered[before..], &handled[seen..])
    };
    explained(handled)
        || handled
            .split_last()
            .is_some_and(|(last, rest)| *last == Step::Deleted && explained(rest))
}

/// Returns whether handlers may have seen `handled` for a key whose only producer made `offered`.
///
/// They must have seen every write, in order. If a write was deleted, they must have seen at least
/// one deletion after it, and at most as many as were offered. No deletion may come before the
/// first write.
fn explains(offered: &[Step], handled: &[Step]) -> bool {
    let runs = |steps: &[Step]| {
        let mut runs = vec![(None, 0)];
        for step in steps {
            match step {
                Step::Written(number) => runs.push((Some(*number), 0)),
                Step::Deleted => runs.last_mut().unwrap().1 += 1,
            }
        }
        runs
    };
    let (offered, handled) = (runs(offered), runs(handled));
    offered.len() == handled.len()
        && offered.iter().zip(&handled).all(|(&(written, offers), &(seen, deletions))| {
            let least = if written.is_some() { offers.min(1) } else { 0 };
            let most = if written.is_some() { offers } else { 0 };
            written == seen && (least..=most).contains(&deletions)
        })
}
