//! A stress test of all operations on real threads: three producers, a thread of relists and
//! resyncs, two consumers that fail, panic and give back, and two readers. Each round has a few
//! hundred operations.
//!
//! The oracle: a producer's offers are handled in its order, across keys. Nothing is lost, and only
//! events that were given back are handled twice. Turns never overlap. Notifications form a chain,
//! so that the old object of each is the new object of the previous one. No reader goes back in
//! time. At the end the store has the objects that result from the notifications.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::{Obj, ObjMeta, block_on, ends, keys, obj};
use crate::rig::Fifo;
use deltafifo::{Change, Event, InOrderFifo, Indexer, ProcessError, Turn};

const PRODUCERS: u64 = 3;
const KEYS: u64 = 8;
const OFFERS: u64 = if cfg!(miri) { 20 } else { 400 };
const ROUNDS: u64 = if cfg!(miri) { 1 } else { 15 };
/// The number above which the objects of relists are numbered. Producers' numbers are lower.
const LISTED: u64 = 1_000_000;

/// A random number generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn key(producer: u64, key: u64) -> String {
    format!("p{producer}/k{key}")
}

/// The records of a consumer. A position is a number from a counter that all threads share. Each
/// consumer has records of its own: a lock around common ones would order the threads, and so hide
/// a queue that does not order them.
#[derive(Default)]
struct Notes {
    /// The handled events: position, producer (`None` for a relist or resync), and the event's
    /// number.
    events: Vec<(u64, Option<u64>, u64)>,
    /// The changes of the store: position, key, the number stored before, and the number stored
    /// now.
    changes: Vec<(u64, String, Option<u64>, Option<u64>)>,
}

struct World {
    fifo: Fifo,
    is_taken: AtomicBool,
    places: AtomicU64,
    is_over: AtomicBool,
}

impl World {
    fn place(&self) -> u64 {
        // Relaxed, as all recording, because it must not order the threads.
        self.places.fetch_add(1, Ordering::Relaxed)
    }
}

/// A guard that closes the queue when its thread panics, so that the other threads end and the test
/// fails with that panic.
struct CloseOnPanic<'w>(&'w World);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_over.store(true, Ordering::Relaxed);
            self.0.fifo.close();
        }
    }
}

fn produce(world: &World, producer: u64, dice: &mut Dice) {
    let _close = CloseOnPanic(world);
    for n in 1..=OFFERS {
        let object = obj(&key(producer, dice.roll(KEYS)), n);
        match dice.roll(4) {
            0 => world.fifo.delete(object),
            1 => world.fifo.add(object),
            _ => world.fifo.update(object),
        }
        .unwrap();
        if world.fifo.ready().is_err() {
            break; // Another thread has panicked.
        }
    }
}

/// Offers relists and resyncs until the round is over. Returns their number. A relist has some keys
/// of every producer, and a higher number than the one before.
fn relist(world: &World, dice: &mut Dice) -> usize {
    let _close = CloseOnPanic(world);
    let mut wholes = 0;
    while !world.is_over.load(Ordering::Relaxed) {
        wholes += 1;
        if dice.roll(3) == 0 {
            world.fifo.resync();
        } else {
            let mut list = Vec::new();
            for producer in 0..PRODUCERS {
                list.extend(
                    (0..KEYS)
                        .filter(|_| dice.roll(2) == 0)
                        .map(|k| obj(&key(producer, k), LISTED + wholes as u64)),
                );
            }
            world.fifo.replace(list, "1").unwrap();
        }
        if block_on(world.fifo.ready_async()).is_err() {
            break;
        }
    }
    wholes
}

fn read(world: &World, dice: &mut Dice) {
    let _close = CloseOnPanic(world);
    let mut newest: BTreeMap<(String, bool), u64> = BTreeMap::new();
    let mut synced = false;
    while !world.is_over.load(Ordering::Relaxed) {
        let found = match dice.roll(3) {
            0 => world.fifo.store().list(),
            1 => world
                .fifo
                .store()
                .by_index("namespace", &format!("p{}", dice.roll(PRODUCERS)))
                .unwrap(),
            _ => world
                .fifo
                .store()
                .get_by_key(&key(dice.roll(PRODUCERS), dice.roll(KEYS)))
                .into_iter()
                .collect(),
        };
        for object in found {
            let newest = newest
                .entry((format!("{}/{}", object.ns, object.name), object.n > LISTED))
                .or_default();
            assert!(object.n >= *newest, "{} {} after {newest}", object.name, object.n);
            *newest = object.n;
        }
        let now = world.fifo.has_synced();
        assert!(now || !synced, "has_synced went back to false");
        synced = now;
    }
}

fn note(world: &World, turn: &mut Turn<'_, Obj, ObjMeta>, notes: &mut Notes, panics: bool) {
    assert!(!world.is_taken.swap(true, Ordering::Relaxed), "two turns at once");
    let (by, n) = match turn.event().unwrap() {
        Event::Delta { key, delta } => (key[1..2].parse().ok(), delta.object.object().unwrap().n),
        _ => (None, 0),
    };
    notes.events.push((world.place(), by, n));
    turn.apply(|key, change| {
        let (old, new) = match change {
            Change::Added { new, .. } => (None, Some(new.n)),
            Change::Updated { old, new, .. } => (Some(old.n), Some(new.n)),
            Change::Deleted { old, .. } => (old.map(|old| old.n), None),
        };
        notes.changes.push((world.place(), key.to_owned(), old, new));
    })
    .unwrap();
    world.is_taken.store(false, Ordering::Relaxed);
    if panics {
        resume_unwind(Box::new("meant"));
    }
}

fn consume(world: &World, dice: &mut Dice) -> Notes {
    let _close = CloseOnPanic(world);
    let (fifo, mut notes) = (&world.fifo, Notes::default());
    loop {
        let max = 1 + usize::try_from(dice.roll(20)).unwrap();
        match dice.roll(4) {
            0 => {
                let handled = fifo.process(|turn| {
                    note(world, turn, &mut notes, dice.roll(10) == 0);
                    if dice.roll(10) == 0 { Err("meant") } else { Ok(()) }
                });
                if let Err(ProcessError::Closed(_)) = handled {
                    return notes;
                }
            }
            1 => {
                let Ok(mut turn) = block_on(fifo.pop_async()) else { return notes };
                note(world, &mut turn, &mut notes, false);
            }
            _ => {
                let Ok(mut turn) = fifo.pop_batch(max) else { return notes };
                // The rest of the batch is given back.
                let mut left = dice.roll(10);
                while turn.event().is_some() && left > 0 {
                    note(world, &mut turn, &mut notes, false);
                    left -= 1;
                }
            }
        }
    }
}

fn round(seed: u64) {
    let store = Indexer::builder(keys()).build().unwrap();
    let world = World {
        fifo: InOrderFifo::over(store).high_water(200).build(),
        is_taken: AtomicBool::new(false),
        places: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let dice = |thread: u64| Dice(seed * 100 + thread);
    let (wholes, notes) = thread::scope(|scope| {
        let world = &world;
        let relisting = scope.spawn(move || relist(world, &mut dice(10)));
        let producing: Vec<_> = (0..PRODUCERS)
            .map(|producer| scope.spawn(move || produce(world, producer, &mut dice(producer))))
            .collect();
        let consuming: Vec<_> =
            (20..22).map(|thread| scope.spawn(move || consume(world, &mut dice(thread)))).collect();
        let reading: Vec<_> =
            (30..32).map(|thread| scope.spawn(move || read(world, &mut dice(thread)))).collect();
        for producing in producing {
            producing.join().unwrap();
        }
        world.is_over.store(true, Ordering::Relaxed);
        let wholes = relisting.join().unwrap();
        world.fifo.close();
        for reading in reading {
            reading.join().unwrap();
        }
        (
            wholes,
            consuming.into_iter().map(|consuming| consuming.join().unwrap()).collect::<Vec<_>>(),
        )
    });
    assert_eq!(world.fifo.pending(), 0);
    assert!(world.fifo.has_synced());

    let mut events: Vec<_> = notes.iter().flat_map(|notes| &notes.events).collect();
    events.sort_unstable();
    for producer in 0..PRODUCERS {
        let of_it = events.iter().filter(|(_, by, _)| *by == Some(producer)).map(|(_, _, n)| *n);
        assert!(of_it.eq(1..=OFFERS), "producer {producer}, seed {seed}");
    }
    assert_eq!(events.iter().filter(|(_, by, _)| by.is_none()).count(), wholes);

    let mut changes: Vec<_> = notes.iter().flat_map(|notes| &notes.changes).collect();
    changes.sort_unstable();
    let mut notified = BTreeMap::new();
    for (_, key, old, new) in changes {
        let before = match new {
            Some(new) => notified.insert(key.clone(), *new),
            None => notified.remove(key),
        };
        assert_eq!(before, *old, "{key} was not in the notified state, seed {seed}");
    }
    let stored = world.fifo.store().list();
    let stored: BTreeMap<_, _> =
        stored.iter().map(|object| (format!("{}/{}", object.ns, object.name), object.n)).collect();
    assert_eq!(stored, notified, "seed {seed}");
}

#[test]
fn everything_at_once() {
    for seed in 1..=ROUNDS {
        ends(move || round(seed));
    }
}
