//! Models of `get_by_key`, `list_keys` and `newest_is` against take and settle. The first returns
//! all pending deltas of a key, the second only pending keys, and the third compares the newest
//! state of a key. They remove nothing.

use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, bare, drain, end, fused, pop_one, show, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "peek::get_and_take",
        bound: None,
        at_least: 2660,
        outcomes: &["[+a1 ~a2], seen: [+a1 ~a2]", "[+a1 ~a2], seen: nothing"],
        body: get_and_take,
    },
    Model {
        name: "peek::get_a_sync_and_take",
        // 0.1 s. The model holds without a bound, too, but then does not end with its mutant.
        bound: Some(4),
        at_least: 423,
        outcomes: &["[:a1 ~a2], seen: [:a1 ~a2]", "[:a1 ~a2], seen: nothing"],
        body: get_a_sync_and_take,
    },
    Model {
        name: "peek::get_and_settle",
        bound: Some(6), // 12 s
        at_least: 64_600,
        outcomes: &["[~a2], seen: [~a2]", "[~a2], seen: nothing"],
        body: get_and_settle,
    },
    Model {
        name: "peek::get_and_push",
        bound: None,
        at_least: 6,
        outcomes: &["[~a1 ~a2], seen: [~a1 ~a2]", "[~a1 ~a2], seen: [~a1]"],
        body: get_and_push,
    },
    Model {
        name: "peek::list_and_take",
        bound: None,
        at_least: 1030,
        outcomes: &["[+a1], seen: a b", "[+a1], seen: b"],
        body: list_and_take,
    },
    Model {
        name: "peek::newest_and_handle",
        bound: None,
        at_least: 1590,
        outcomes: &["[+a1], newest: a1", "[+a1], newest: uncertain"],
        body: newest_and_handle,
    },
];

fn get(fifo: &Fifo) -> String {
    fifo.get_by_key("a").map_or("nothing".to_owned(), |deltas| show(&deltas, "a"))
}

fn get_and_take() -> String {
    let (fifo, log) = (bare(), Log::default());
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.update(Object::new("a", 2)).unwrap();
    let reader = spawn_with(&fifo, |fifo| get(fifo));
    pop_one(&fifo, &log, false);
    format!("{}, seen: {}", log.text(), reader.join().unwrap())
}

/// Checks that a Sync delta that `get` returns has the object that was known when `get` read it,
/// never a later state that the handler makes.
fn get_a_sync_and_take() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    fifo.resync();
    fifo.update(Object::new("a", 2)).unwrap();
    let reader = spawn_with(&fifo, |fifo| get(fifo));
    pop_one(&fifo, &log, true);
    format!("{}, seen: {}", log.text(), reader.join().unwrap())
}

/// Reads a key while settle queues a delta that was pushed on the running slot.
fn get_and_settle() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    fifo.add(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    fifo.update(Object::new("a", 2)).unwrap();
    let reader = spawn_with(&fifo, |fifo| get(fifo));
    end(item, true);
    let seen = reader.join().unwrap();
    drain(&fifo, &log, true);
    format!("{}, seen: {seen}", log.text())
}

/// Reads a key while a batch of offers pushes a delta of it. The push holds the shard's lock in
/// shared mode only, and still cannot overlap with the read.
fn get_and_push() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 0)]), Log::default());
    fifo.update(Object::new("a", 1)).unwrap();
    let reader = spawn_with(&fifo, |fifo| get(fifo));
    fifo.update_batch(vec![Object::new("a", 2)]).unwrap();
    let seen = reader.join().unwrap();
    drain(&fifo, &log, true);
    format!("{}, seen: {seen}", log.text())
}

fn list_and_take() -> String {
    let (fifo, log) = (bare(), Log::default());
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    let reader = spawn_with(&fifo, |fifo| {
        let mut keys = fifo.list_keys();
        keys.sort_unstable();
        keys.join(" ")
    });
    pop_one(&fifo, &log, false);
    format!("{}, seen: {}", log.text(), reader.join().unwrap())
}

/// Asks for the newest state of a new key that a consumer takes and stores. The key never counts as
/// unknown.
fn newest_and_handle() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    fifo.add(Object::new("a", 1)).unwrap();
    let reader = spawn_with(&fifo, |fifo| {
        match fifo.newest_is(&Object::new("a", 0), |newest| newest.read() == 1) {
            Some(true) => "a1",
            Some(false) => "unknown",
            None => "uncertain",
        }
    });
    pop_one(&fifo, &log, true);
    format!("{}, newest: {}", log.text(), reader.join().unwrap())
}
