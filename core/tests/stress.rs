//! Everything at once on several threads: producers, a relist in a loop, resyncs, readers, two consumers in batches.
//!
//! Each producer owns its keys, so what is handled of a key must be exactly what was offered, in order; the relister owns
//! others and only keeps the producers'. Set `STRESS_SECS` to go on for longer.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use common::{Mode, Obj, Rig, ends, obj, show_one};
use deltafifo::{DeltaType, KnownObjects};

const PRODUCERS: u64 = 3;
const KEYS: u64 = if cfg!(miri) { 4 } else { 20 };
const OPS: u64 = if cfg!(miri) { 25 } else { 15_000 };
const RELISTED: u64 = if cfg!(miri) { 5 } else { 300 };

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Per key what was offered or handled, in order, as text.
type Log = HashMap<String, Vec<String>>;

/// When the producers stop: after so many offers each, or at a time.
struct End(u64, Option<Instant>);

impl End {
    fn new(ops: u64) -> Self {
        let seconds = std::env::var("STRESS_SECS").ok().and_then(|seconds| seconds.parse().ok());
        Self(ops, seconds.filter(|_| ops == OPS).map(|seconds| Instant::now() + Duration::from_secs(seconds)))
    }

    fn is_over(&self, op: u64) -> bool {
        self.1.map_or(op >= self.0, |end| op.is_multiple_of(64) && Instant::now() >= end)
    }
}

fn owned_key(producer: u64, number: u64) -> String {
    format!("producer-{producer}/key-{number}")
}

/// Offers adds, updates and deletions of this producer's keys; gives the final truth.
fn produce(
    rig: &Rig,
    producer: u64,
    end: &End,
    objects: &Mutex<Vec<Weak<Obj>>>,
    log: &mut Log,
) -> HashMap<String, u64> {
    let (fifo, mut dice, mut truth) = (&rig.fifo, Dice(producer), HashMap::new());
    let mut op = 0;
    while !end.is_over(op) {
        op += 1;
        let key = owned_key(producer, dice.roll(KEYS));
        let object = obj(&key, op);
        if op % 8 == 0 {
            objects.lock().unwrap().push(Arc::downgrade(&object));
        }
        let kind = match truth.contains_key(&key) {
            false => 'A',
            true if dice.roll(3) == 0 => 'D',
            true => 'U',
        };
        match (kind, dice.roll(4)) {
            ('A', 0) => fifo.add_batch(vec![object]).unwrap(),
            ('A', _) => fifo.add(object).unwrap(),
            ('U', 0) => fifo.update_batch(vec![object]).unwrap(),
            ('U', _) => fifo.update(object).unwrap(),
            _ => fifo.delete(object).unwrap(),
        }
        if kind == 'D' {
            truth.remove(&key)
        } else {
            truth.insert(key.clone(), op)
        };
        log.entry(key).or_default().push(format!("{kind}{op}"));
        if fifo.ready().is_err() {
            break;
        }
    }
    truth
}

/// Relists some of its own keys again and again, keeping the producers'; gives what the last one listed.
fn relist(rig: &Rig, producers: &AtomicUsize) -> HashMap<String, u64> {
    let mut dice = Dice(99);
    let mut round = 0;
    loop {
        round += 1;
        let is_last = producers.load(Ordering::Acquire) == 0;
        let mut relist = rig.fifo.begin_replace();
        relist.expect(1000);
        for producer in 0..PRODUCERS {
            (0..KEYS).for_each(|number| relist.keep(&owned_key(producer, number)).unwrap());
        }
        let mut truth = HashMap::new();
        for number in 0..RELISTED {
            let (key, n) = (format!("relisted/{number}"), round / (1 + number % 5));
            if dice.roll(4) > 0 {
                truth.insert(key, n);
            }
        }
        let mut page = Vec::new();
        for (key, n) in &truth {
            let needed = dice.roll(2) == 0 || relist.probe(&[(key, &n.to_string())]).unwrap()[0];
            if needed {
                page.push(obj(key, *n));
            }
            if page.len() == 50 {
                relist.offer(std::mem::take(&mut page)).unwrap();
            }
        }
        relist.offer(page).unwrap();
        if !is_last && dice.roll(5) == 0 {
            relist.abandon();
            continue;
        }
        relist.commit(&round.to_string()).unwrap();
        if is_last {
            return truth;
        }
        thread::yield_now();
    }
}

/// Takes batches until the queue is closed and empty; sometimes puts items back or drops a batch.
fn consume(rig: &Rig, seed: u64, log: &Mutex<Log>, in_hand: &Mutex<HashMap<String, u64>>) {
    let _close = CloseOnPanic(rig);
    let mut dice = Dice(seed);
    while let Ok(mut batch) = rig.fifo.pop_batch(1 + usize::try_from(dice.roll(40)).unwrap()) {
        while let Some(mut guard) = batch.next() {
            let key = guard.key().to_owned();
            assert!(!guard.deltas().is_empty(), "an empty pop of {key}");
            assert!(in_hand.lock().unwrap().insert(key.clone(), seed).is_none(), "two handlers of {key} at once");
            let roll = dice.roll(50);
            let handles = roll >= 2;
            if handles {
                check_syncs(rig, &guard);
                let told = guard.deltas().iter().filter(|delta| delta.kind != DeltaType::Sync).map(show_one);
                log.lock().unwrap().entry(key.clone()).or_default().extend(told);
                rig.apply(&mut guard);
            }
            in_hand.lock().unwrap().remove(&key);
            match roll {
                0 => guard.requeue(),
                1 => drop(guard),
                _ => guard.done(),
            }
            if roll == 49 {
                break;
            }
        }
    }
}

/// A Sync holds what the store has, unless it is behind other deltas (put back in front of it).
fn check_syncs(rig: &Rig, guard: &common::Guard<'_>) {
    let Some(first) = guard.deltas().first().filter(|delta| delta.kind == DeltaType::Sync) else { return };
    let stored = match rig.mode {
        Mode::Fused => rig.fifo.store().get_by_key(guard.key()),
        _ => rig.outside.get_by_key(guard.key()).unwrap(),
    };
    let stored = stored.unwrap_or_else(|| panic!("a Sync of {}, which is not known", guard.key()));
    assert_eq!(first.object.object().unwrap().n, stored.n, "a stale Sync of {}", guard.key());
}

/// Closes the queue when its thread panics, so that the others end and the panic is seen.
struct CloseOnPanic<'a>(&'a Rig);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fifo.close();
        }
    }
}

fn read(rig: &Rig, done: &AtomicBool) {
    let _close = CloseOnPanic(rig);
    let reader = rig.fifo.store();
    while !done.load(Ordering::Acquire) && !rig.fifo.is_closed() {
        for producer in 0..PRODUCERS {
            let namespace = format!("producer-{producer}");
            for object in reader.by_index("namespace", &namespace).unwrap() {
                assert_eq!(object.ns, namespace);
            }
            assert!(reader.index_keys("namespace", &namespace).unwrap().len() as u64 <= KEYS);
            drop((reader.get_by_key(&owned_key(producer, 0)), rig.fifo.get_by_key(&owned_key(producer, 0))));
        }
        drop((reader.list(), rig.fifo.list(), rig.fifo.list_keys()));
        rig.fifo.resync();
        thread::yield_now();
    }
}

fn stress(ops: u64, mode: Mode, skip_unchanged: bool, notify_unchanged: bool, threads: usize) {
    let rig = Rig::with(mode, |builder| {
        let builder = builder.skip_unchanged(skip_unchanged).notify_unchanged(notify_unchanged);
        builder.relist_threads(threads).high_water(2_000).ordered_walks(threads == 1)
    });
    let end = End::new(ops);
    let (objects, handled, in_hand) = (Mutex::default(), Mutex::new(Log::new()), Mutex::default());
    let (producing, done) = (AtomicUsize::new(usize::try_from(PRODUCERS).unwrap()), AtomicBool::new(false));
    let (mut offered, mut truth) = (Log::new(), HashMap::new());
    thread::scope(|scope| {
        let (rig, end, objects, handled, in_hand) = (&rig, &end, &objects, &handled, &in_hand);
        let (producing, done) = (&producing, &done);
        let consumers: Vec<_> = (1..3).map(|seed| scope.spawn(move || consume(rig, seed, handled, in_hand))).collect();
        scope.spawn(move || read(rig, done));
        let relister = scope.spawn(move || relist(rig, producing));
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                scope.spawn(move || {
                    let mut log = Log::new();
                    let truth = produce(rig, producer, end, objects, &mut log);
                    producing.fetch_sub(1, Ordering::AcqRel);
                    (truth, log)
                })
            })
            .collect();
        for producer in producers {
            let (own, log) = producer.join().unwrap();
            truth.extend(own);
            offered.extend(log);
        }
        truth.extend(relister.join().unwrap());
        done.store(true, Ordering::Release);
        rig.fifo.close();
        for consumer in consumers {
            consumer.join().unwrap();
        }
    });
    // Consumers end when the queue is closed and empty, and take again themselves what they put back. But the reader may
    // still have been at a resync; in key order, which publishes late, what came behind a Sync is left as well.
    for shown in rig.drain() {
        let (key, left) = shown.split_once(": ").unwrap();
        assert!(threads == 1 || !left.contains(['A', 'U', 'D', 'R']), "left by the consumers: {shown}");
        let told = left.split(' ').filter(|delta| !delta.starts_with('S')).map(str::to_owned);
        handled.lock().unwrap().entry(key.to_owned()).or_insert_with(Vec::new).extend(told);
    }
    assert!(rig.fifo.has_synced());
    assert_eq!(rig.fifo.pending_deltas(), 0);
    assert!(rig.fifo.list_keys().is_empty() && rig.fifo.try_pop().is_none());
    let handled = handled.into_inner().unwrap();
    for (key, expected) in &offered {
        let seen = handled.get(key).map_or(&[][..], Vec::as_slice);
        if let Some(place) = (0..expected.len().max(seen.len())).find(|&place| expected.get(place) != seen.get(place)) {
            let window =
                |log: &[String]| log[place.saturating_sub(3).min(log.len())..(place + 3).min(log.len())].join(" ");
            panic!("{key}, delta {place}: offered …{}…, handled …{}…", window(expected), window(seen));
        }
    }
    let mut expected: Vec<_> = truth.iter().map(|(key, n)| format!("{key}={n}")).collect();
    expected.sort();
    assert_eq!(rig.stored(), expected);
    if mode == Mode::Fused {
        assert_eq!(rig.fifo.store().len(), expected.len());
    }
    let objects: Vec<Weak<Obj>> = objects.into_inner().unwrap();
    assert!(objects.iter().filter(|object| object.strong_count() > 0).count() <= expected.len());
    drop(rig);
    assert!(objects.iter().all(|object| object.strong_count() == 0), "an object is still held");
}

#[test]
fn a_fused_queue_under_everything_at_once() {
    ends(|| stress(OPS, Mode::Fused, false, false, 1));
}

#[test]
fn a_fused_queue_that_skips_unchanged_objects_under_everything_at_once() {
    ends(|| stress(OPS, Mode::Fused, true, false, 2));
}

#[test]
fn a_fused_queue_that_notifies_of_unchanged_objects_under_everything_at_once() {
    ends(|| stress(OPS, Mode::Fused, false, true, 2));
}

#[test]
fn a_queue_over_a_store_elsewhere_under_everything_at_once() {
    ends(|| stress(OPS, Mode::Elsewhere, false, false, 1));
}

#[test]
#[cfg_attr(miri, ignore = "the others are as short there")]
fn fused_queues_that_are_closed_soon_after_their_start() {
    ends(|| {
        for round in 0..100 {
            stress(40, Mode::Fused, round % 2 == 0, round % 3 == 0, 1 + round % 4 / 2);
        }
    });
}
