//! Models of the live lane. A key that passes a relist's backlog is popped once, with all its
//! pending deltas. The entry that the key leaves in the backlog is stale: a pop of it returns
//! nothing, and it does not keep the key's slot for ever.

use deltafifo::mutants::slots;
use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{
    Fifo, Log, Object, drain, end, fused_with, pop_one, rest, show, spawn_with, wait_and_show,
};

pub const MODELS: &[Model] = &[
    Model {
        name: "lane::passed_while_popped",
        bound: Some(5), // 4.6 s
        at_least: 20_750,
        outcomes: &["[=a1 ~a2], stored: a2, slots: 1", "[=a1] [~a2], stored: a2, slots: 1"],
        body: passed_while_popped,
    },
    Model {
        name: "lane::taken_and_stale",
        bound: None,
        at_least: 34_350,
        outcomes: &["[=a1 ~a2], stored: a2, slots: 1"],
        body: taken_and_stale,
    },
    Model {
        name: "lane::deleted_and_stale",
        bound: Some(4), // 6.1 s
        at_least: 22_590,
        outcomes: &["[=a1 -a1], stored: , slots: 0"],
        body: deleted_and_stale,
    },
    Model {
        name: "lane::passed_by_two",
        bound: Some(2), // 4.0 s
        at_least: 8640,
        outcomes: &[
            "[=a1 ~a2 ~a2], stored: a2, slots: 1",
            "[=a1 ~a2] [~a2], stored: a2, slots: 1",
            "[=a1] [~a2 ~a2], stored: a2, slots: 1",
        ],
        body: passed_by_two,
    },
    Model {
        name: "lane::revived",
        bound: None,
        at_least: 1530,
        outcomes: &["[=a1 ~a2] [=a3], stored: a3, slots: 1"],
        body: revived,
    },
    Model {
        name: "lane::revived_by_settle",
        bound: Some(4), // 28 s
        at_least: 73_680,
        outcomes: &["[=a1 ~a2] [=a3], stored: a3, slots: 1"],
        body: revived_by_settle,
    },
    Model {
        name: "lane::passed_for_a_sleeper",
        bound: Some(2), // 3.8 s
        at_least: 11_510,
        outcomes: &["[=a1 ~a2]", "[=a1] [~a2]", "[~a2 =a1]", "[~a2] [=a1]"],
        body: passed_for_a_sleeper,
    },
    Model {
        name: "lane::relist_and_burst",
        bound: Some(4), // 19 s
        at_least: 75_900,
        outcomes: &["[=a1 ~a2], stored: a2, slots: 1", "[~a2 =a1], stored: a1, slots: 1"],
        body: relist_and_burst,
    },
    Model {
        name: "lane::settled_passed_and_left",
        bound: Some(2), // 52 s
        at_least: 140_000,
        outcomes: &[
            "[=a1 ~a2] [=a3 ~a4], stored: a4, slots: 1",
            "[=a1 ~a2] [=a3] [~a4], stored: a4, slots: 1",
        ],
        body: settled_passed_and_left,
    },
    Model {
        name: "lane::unknown_and_listed",
        bound: None,
        at_least: 1530,
        outcomes: &["[=a1 -a1] [=a3], stored: a3, slots: 1"],
        body: unknown_and_listed,
    },
    Model {
        name: "lane::passed_out_of_a_batch",
        bound: None,
        at_least: 670,
        outcomes: &["[=b1 ~b2]"],
        body: passed_out_of_a_batch,
    },
    Model {
        name: "lane::listed_as_it_was",
        bound: None,
        at_least: 2830,
        outcomes: &["[=a1 -a1] [=a1], stored: a1, slots: 1"],
        body: listed_as_it_was,
    },
];

/// Creates a queue in which a relist has put `a` into the backlog.
fn backlog() -> Arc<Fifo> {
    let fifo = Arc::new(fused_with(&[]).live_lane(true).build());
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    fifo
}

/// Creates a queue in which a live event of `a` has passed the backlog, where a relist had put `a`.
fn passed() -> Arc<Fifo> {
    let fifo = backlog();
    fifo.update(Object::new("a", 2)).unwrap();
    fifo
}

fn pop_in_the_log(fifo: &Arc<Fifo>, log: &Arc<Log>) -> loom::thread::JoinHandle<bool> {
    let log = log.clone();
    spawn_with(fifo, move |fifo| pop_one(fifo, &log, true))
}

/// Handles all pending keys. Returns their deltas, the contents of the store and the number of
/// slots.
fn rest_with_slots(fifo: &Fifo, log: &Log) -> String {
    format!("{}, slots: {}", rest(fifo, log), slots(fifo))
}

fn passed_while_popped() -> String {
    let (fifo, log) = (backlog(), Log::default());
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    pop_one(&fifo, &log, true);
    producer.join().unwrap();
    rest_with_slots(&fifo, &log)
}

/// Pops the live entry of a key on one thread and the stale one on another.
fn taken_and_stale() -> String {
    let (fifo, log) = (passed(), Arc::new(Log::default()));
    let other = pop_in_the_log(&fifo, &log);
    pop_one(&fifo, &log, true);
    other.join().unwrap();
    rest_with_slots(&fifo, &log)
}

/// Pops a deletion in the live lane and the stale entry of its key on two threads. The last of the
/// two retires the slot.
fn deleted_and_stale() -> String {
    let (fifo, log) = (backlog(), Arc::new(Log::default()));
    fifo.delete(Object::new("a", 1)).unwrap();
    let other = pop_in_the_log(&fifo, &log);
    pop_one(&fifo, &log, true);
    other.join().unwrap();
    rest_with_slots(&fifo, &log)
}

fn passed_by_two() -> String {
    let (fifo, log) = (backlog(), Arc::new(Log::default()));
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    let consumer = pop_in_the_log(&fifo, &log);
    fifo.update(Object::new("a", 2)).unwrap();
    producer.join().unwrap();
    consumer.join().unwrap();
    rest_with_slots(&fifo, &log)
}

/// Lists a key again while a consumer reaches the key's stale entry.
fn revived() -> String {
    let (fifo, log) = (passed(), Arc::new(Log::default()));
    pop_one(&fifo, &log, true);
    let consumer = pop_in_the_log(&fifo, &log);
    fifo.replace(vec![Object::new("a", 3)], "2").unwrap();
    consumer.join().unwrap();
    rest_with_slots(&fifo, &log)
}

/// Lists a key while its handler runs, so that settle puts the key into the backlog.
fn revived_by_settle() -> String {
    let (fifo, log) = (passed(), Arc::new(Log::default()));
    let item = fifo.try_pop().unwrap();
    log.add(&show(item.deltas(), item.key()));
    fifo.replace(vec![Object::new("a", 3)], "2").unwrap();
    let consumer = pop_in_the_log(&fifo, &log);
    end(item, true);
    consumer.join().unwrap();
    rest_with_slots(&fifo, &log)
}

/// Offers a live event of a key that a relist has pushed but not queued yet. The event wakes a
/// sleeping consumer.
fn passed_for_a_sleeper() -> String {
    let fifo = Arc::new(fused_with(&[]).live_lane(true).build());
    let sleeper = spawn_with(&fifo, wait_and_show);
    let relist = spawn_with(&fifo, |fifo| drop(fifo.replace(vec![Object::new("a", 1)], "1")));
    fifo.update(Object::new("a", 2)).unwrap();
    relist.join().unwrap();
    let log = Log::default();
    log.add(&sleeper.join().unwrap());
    drain(&fifo, &log, false);
    log.text()
}

/// Pushes a key by a relist and by a batch of offers on two threads, which both hold the shard's
/// lock in shared mode. The second push finds the delta or the queue entry of the first.
fn relist_and_burst() -> String {
    let (fifo, log) =
        (Arc::new(fused_with(&[Object::new("a", 0)]).live_lane(true).build()), Log::default());
    let relist = spawn_with(&fifo, |fifo| drop(fifo.replace(vec![Object::new("a", 1)], "1")));
    fifo.update_batch(vec![Object::new("a", 2)]).unwrap();
    relist.join().unwrap();
    rest_with_slots(&fifo, &log)
}

/// Lets settle revive a stale entry while a live push passes it again and a consumer reaches it.
fn settled_passed_and_left() -> String {
    let (fifo, log) = (passed(), Arc::new(Log::default()));
    let item = fifo.try_pop().unwrap();
    log.add(&show(item.deltas(), item.key()));
    fifo.replace(vec![Object::new("a", 3)], "2").unwrap();
    let consumer = pop_in_the_log(&fifo, &log);
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 4)).unwrap());
    end(item, true);
    producer.join().unwrap();
    consumer.join().unwrap();
    rest_with_slots(&fifo, &log)
}

/// Lists a key again whose slot exists only because of its stale entry, while a consumer reaches
/// that entry.
fn unknown_and_listed() -> String {
    deleted_and_listed(&backlog(), 3)
}

/// Lists a key again like [`unknown_and_listed`], but with its former version, in a queue that
/// skips unchanged objects.
fn listed_as_it_was() -> String {
    let fifo = Arc::new(fused_with(&[]).live_lane(true).skip_unchanged(true).build());
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    deleted_and_listed(&fifo, 1)
}

fn deleted_and_listed(fifo: &Arc<Fifo>, number: usize) -> String {
    let log = Arc::new(Log::default());
    fifo.delete(Object::new("a", 1)).unwrap();
    pop_one(fifo, &log, true);
    let consumer = pop_in_the_log(fifo, &log);
    fifo.replace(vec![Object::new("a", number)], "2").unwrap();
    consumer.join().unwrap();
    rest_with_slots(fifo, &log)
}

/// Offers a live event for a key while a consumer holds all keys of the backlog in a popped batch.
/// The event makes the key available again and wakes a sleeping consumer.
fn passed_out_of_a_batch() -> String {
    let fifo = Arc::new(fused_with(&[]).live_lane(true).build());
    fifo.replace(vec![Object::new("a", 1), Object::new("b", 1)], "1").unwrap();
    let batch = fifo.try_pop_batch(2).unwrap();
    let sleeper = spawn_with(&fifo, wait_and_show);
    fifo.update(Object::new("b", 2)).unwrap();
    let shown = sleeper.join().unwrap();
    drop(batch);
    shown
}
