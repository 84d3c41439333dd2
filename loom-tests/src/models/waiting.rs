//! Models of waits for something other than a key: for the initial population to be handled, or
//! for room below the high-water mark. No waiter sleeps for ever, neither when its condition
//! becomes true nor at a close.

use deltafifo::Closed;
use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, fused, fused_with, pop_one, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "waiting::for_sync",
        bound: None,
        at_least: 680,
        outcomes: &["synced"],
        body: for_sync,
    },
    Model {
        name: "waiting::for_sync_async",
        bound: None,
        at_least: 1790,
        outcomes: &["synced"],
        body: for_sync_async,
    },
    Model {
        name: "waiting::for_sync_and_close",
        bound: None,
        at_least: 110,
        outcomes: &["closed"],
        body: for_sync_and_close,
    },
    Model {
        name: "waiting::for_room",
        bound: None,
        at_least: 110,
        outcomes: &["ready"],
        body: for_room,
    },
    Model {
        name: "waiting::for_room_async",
        bound: None,
        at_least: 250,
        outcomes: &["ready"],
        body: for_room_async,
    },
    Model {
        name: "waiting::for_room_and_close",
        bound: None,
        at_least: 110,
        outcomes: &["closed"],
        body: for_room_and_close,
    },
    Model {
        name: "waiting::two_handlers_and_an_observer",
        bound: Some(4), // 1.2 s
        at_least: 4660,
        outcomes: &["not yet", "synced"],
        body: two_handlers_and_an_observer,
    },
];

/// Creates a queue that becomes synced when its last handler ends.
fn about_to_sync() -> Arc<Fifo> {
    let fifo = fused(&[]);
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    fifo
}

/// Creates a queue that is above its high-water mark.
fn full() -> Arc<Fifo> {
    let fifo = Arc::new(fused_with(&[]).high_water(1).build());
    fifo.add(Object::new("a", 1)).unwrap();
    fifo
}

/// Runs `wait` on a thread and then `trigger`. Returns how the wait ended.
fn result_of(
    fifo: &Arc<Fifo>,
    wait: fn(&Fifo) -> Result<(), Closed>,
    trigger: fn(&Fifo),
    of: &str,
) -> String {
    let waiting = spawn_with(fifo, move |fifo| wait(fifo).is_ok());
    trigger(fifo);
    if waiting.join().unwrap() { of } else { "closed" }.to_owned()
}

fn handle_one(fifo: &Fifo) {
    pop_one(fifo, &Log::default(), true);
}

fn for_sync() -> String {
    result_of(&about_to_sync(), Fifo::wait_for_sync, handle_one, "synced")
}

fn for_sync_async() -> String {
    result_of(&about_to_sync(), |fifo| block_on(fifo.wait_for_sync_async()), handle_one, "synced")
}

fn for_sync_and_close() -> String {
    result_of(&fused(&[]), Fifo::wait_for_sync, Fifo::close, "synced")
}

fn for_room() -> String {
    result_of(&full(), Fifo::ready, handle_one, "ready")
}

fn for_room_async() -> String {
    result_of(&full(), |fifo| block_on(fifo.ready_async()), handle_one, "ready")
}

fn for_room_and_close() -> String {
    result_of(&full(), Fifo::ready, Fifo::close, "ready")
}

/// Checks that a thread that learns that the queue is synced sees the work of all handlers, not
/// only of the last one.
fn two_handlers_and_an_observer() -> String {
    let fifo = fused(&[]);
    fifo.replace(vec![Object::new("a", 1), Object::new("b", 1)], "1").unwrap();
    let work = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    // Relaxed: the queue must make it visible.
    let [one, other] = [0, 1].map(|number: usize| {
        let work = work.clone();
        spawn_with(&fifo, move |fifo| {
            let item = fifo.try_pop().unwrap();
            work[number].store(1, Ordering::Relaxed);
            item.done();
        })
    });
    let synced = fifo.has_synced();
    if synced {
        let seen = [0, 1].map(|number: usize| work[number].load(Ordering::Relaxed));
        assert_eq!(seen, [1, 1], "the work of a handler is not visible");
    }
    one.join().unwrap();
    other.join().unwrap();
    if synced { "synced" } else { "not yet" }.to_owned()
}
