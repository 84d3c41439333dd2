//! Models of the in-order queue: turns do not overlap, no event is lost, sleeping consumers are
//! woken, and a relist is one event.
//!
//! A turn is written as its events in brackets, a relist as `all a1 b1`, a resync as `sync`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use deltafifo::{Closed, Event, InOrderFifo, Indexer, KeyFunc, Turn};
use loom::future::block_on;
use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Access, Exclusive, Object, show_all, sign, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "in_order::a_sleeper_and_an_add",
        bound: None,
        at_least: 30,
        outcomes: &["[+a1]"],
        body: a_sleeper_and_an_add,
    },
    Model {
        name: "in_order::an_async_sleeper_and_an_add",
        bound: None,
        at_least: 80,
        outcomes: &["[+a1]"],
        body: an_async_sleeper_and_an_add,
    },
    Model {
        name: "in_order::cancelled",
        bound: Some(4), // 2.7 s
        at_least: 25_000,
        outcomes: &["[+a1] [+b1]", "cancelled [+a1]"],
        body: cancelled,
    },
    Model {
        name: "in_order::two_sleepers_and_two_adds",
        bound: Some(3), // 2.0 s
        at_least: 21_000,
        outcomes: &["[+a1] [+b1]", "[+b1] [+a1]"],
        body: two_sleepers_and_two_adds,
    },
    Model {
        name: "in_order::notified_and_not_polled",
        bound: None, // 9 s
        at_least: 21_000,
        outcomes: &["[+a1] [+b1]"],
        body: notified_and_not_polled,
    },
    Model {
        name: "in_order::notified_before_a_turn_ends",
        bound: None,
        at_least: 20,
        outcomes: &["[+b1]"],
        body: notified_before_a_turn_ends,
    },
    Model {
        name: "in_order::two_turns",
        bound: None,
        at_least: 200,
        outcomes: &["[+a1] [+b1]", "[+b1] [+a1]"],
        body: two_turns,
    },
    Model {
        name: "in_order::given_back",
        bound: None,
        at_least: 140_000,
        outcomes: &["[+a1] [+b1] [~a2], then ", "[+a1] [+b1], then [~a2]"],
        body: given_back,
    },
    Model {
        name: "in_order::closed_and_given_back",
        bound: None,
        at_least: 60,
        outcomes: &["[+a1]"],
        body: closed_and_given_back,
    },
    Model {
        name: "in_order::closed_and_handled",
        bound: Some(4), // 0.8 s
        at_least: 9_600,
        outcomes: &["closed closed"],
        body: closed_and_handled,
    },
    Model {
        name: "in_order::a_producer_and_batches",
        bound: Some(3), // 0.2 s
        at_least: 3_400,
        outcomes: &["[+a1 +b1] [~a2]", "[+a1] [+b1 ~a2]"],
        body: a_producer_and_batches,
    },
    Model {
        name: "in_order::synced_by_its_turn",
        bound: None,
        at_least: 70,
        outcomes: &["[all a1]"],
        body: synced_by_its_turn,
    },
    Model {
        name: "in_order::behind_the_initial_list",
        bound: None,
        at_least: 320,
        outcomes: &["[all a1]! [sync]"],
        body: behind_the_initial_list,
    },
    Model {
        name: "in_order::two_relists_and_two_consumers",
        bound: None,
        at_least: 320,
        outcomes: &["b2"],
        body: two_relists_and_two_consumers,
    },
    Model {
        name: "in_order::a_reader_during_a_relist",
        bound: Some(3), // 4.0 s
        at_least: 23_000,
        outcomes: &["a1 b1", "a1", "a2 b1", "a2"],
        body: a_reader_during_a_relist,
    },
];

pub(super) type Queue = InOrderFifo<Object, Access>;

fn bare() -> Arc<Queue> {
    Arc::new(InOrderFifo::builder(KeyFunc::meta_namespace(Access)).build())
}

/// Creates a queue over a store that holds `objects`.
pub(super) fn over(objects: &[Arc<Object>]) -> Arc<Queue> {
    let store = Indexer::builder(KeyFunc::meta_namespace(Access)).build().unwrap();
    objects.iter().for_each(|object| store.add(object.clone()).unwrap());
    Arc::new(InOrderFifo::over(store).build())
}

/// Formats a turn. Reads every object.
fn show(turn: &Turn<'_, Object, Access>) -> String {
    let events = turn.events().map(|event| match event {
        Event::Delta { key, delta } => {
            let number =
                delta.object.object().map_or("?".to_owned(), |object| object.read().to_string());
            format!("{}{key}{number}", sign(delta.kind))
        }
        Event::ReplacedAll(list) => {
            let listed = list.iter().map(|(key, object)| format!(" {key}{}", object.read()));
            format!("all{}", listed.collect::<String>())
        }
        Event::SyncAll => "sync".to_owned(),
        other => panic!("a new kind of event: {}", other.key().unwrap_or_default()),
    });
    format!("[{}]", events.collect::<Vec<_>>().join(" "))
}

/// Formats the result of a wait, and settles the turn.
fn end_and_show(waited: Result<Turn<'_, Object, Access>, Closed>) -> String {
    let Ok(turn) = waited else { return "closed".to_owned() };
    let shown = show(&turn);
    turn.done();
    shown
}

fn wait_and_show(fifo: &Queue) -> String {
    end_and_show(fifo.pop())
}

/// Handles all pending events. Must be called when no other thread uses the queue any more.
fn rest(fifo: &Queue) -> String {
    std::iter::from_fn(|| fifo.try_pop())
        .map(|turn| end_and_show(Ok(turn)))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn apply(turn: &mut Turn<'_, Object, Access>) {
    turn.apply(|_, _| ()).unwrap();
}

fn a_sleeper_and_an_add() -> String {
    let fifo = bare();
    let sleeper = spawn_with(&fifo, wait_and_show);
    fifo.add(Object::new("a", 1)).unwrap();
    sleeper.join().unwrap()
}

fn an_async_sleeper_and_an_add() -> String {
    let fifo = bare();
    let sleeper = spawn_with(&fifo, |fifo| end_and_show(block_on(fifo.pop_async())));
    fifo.add(Object::new("a", 1)).unwrap();
    sleeper.join().unwrap()
}

/// Checks that a future that is dropped while it waits passes its wake-up on to the next sleeping
/// consumer.
fn cancelled() -> String {
    let fifo = bare();
    let cancelled = spawn_with(&fifo, |fifo| {
        let mut waiting = pin!(fifo.pop_async());
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(waited) => end_and_show(waited),
            Poll::Pending => "cancelled".to_owned(),
        }
    });
    let sleeper = spawn_with(&fifo, wait_and_show);
    fifo.add(Object::new("a", 1)).unwrap();
    let cancelled = cancelled.join().unwrap();
    if cancelled != "cancelled" {
        fifo.add(Object::new("b", 1)).unwrap();
    }
    format!("{cancelled} {}", sleeper.join().unwrap())
}

/// Checks that two sleeping consumers get one of two events each. One wake-up per event is enough
/// for that, together with the wake-up at the end of a turn.
fn two_sleepers_and_two_adds() -> String {
    let fifo = bare();
    let sleepers = [spawn_with(&fifo, wait_and_show), spawn_with(&fifo, wait_and_show)];
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    sleepers.map(|sleeper| sleeper.join().unwrap()).join(" ")
}

/// Checks that a future that was woken but not polled keeps at most one event from a sleeping
/// consumer.
fn notified_and_not_polled() -> String {
    let fifo = bare();
    let mut unpolled = pin!(fifo.pop_async());
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let sleeper = spawn_with(&fifo, wait_and_show);
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    let slept = sleeper.join().unwrap();
    match unpolled.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(waited) => format!("{slept} {}", end_and_show(waited)),
        Poll::Pending => slept,
    }
}

/// Checks that the end of a turn wakes a sleeping consumer although another future was woken
/// before and has not been polled since.
fn notified_before_a_turn_ends() -> String {
    let fifo = bare();
    let mut unpolled = pin!(fifo.pop_async());
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    fifo.add(Object::new("a", 1)).unwrap();
    let turn = fifo.try_pop().unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    let sleeper = spawn_with(&fifo, wait_and_show);
    turn.done();
    sleeper.join().unwrap()
}

/// Checks that each turn sees the writes of the previous one.
fn two_turns() -> String {
    let fifo = bare();
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    let exclusive = Arc::new(Exclusive::default());
    let handle = |fifo: &Queue, exclusive: &Exclusive| {
        let turn = fifo.pop().unwrap();
        let shown = show(&turn);
        exclusive.handle(|| loom::thread::yield_now());
        turn.done();
        shown
    };
    let other = exclusive.clone();
    let other = spawn_with(&fifo, move |fifo| handle(fifo, &other));
    let one = handle(&fifo, &exclusive);
    format!("{one} {}", other.join().unwrap())
}

/// Checks that events that are given back come before later ones.
fn given_back() -> String {
    let fifo = bare();
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    drop(fifo.pop_batch(2));
    let first = rest(&fifo);
    producer.join().unwrap();
    format!("{first}, then {}", rest(&fifo))
}

/// Checks that a pop of a closed queue does not return `Closed` while a turn may still give events
/// back.
fn closed_and_given_back() -> String {
    let fifo = bare();
    fifo.add(Object::new("a", 1)).unwrap();
    let turn = fifo.pop().unwrap();
    fifo.close();
    let sleeper = spawn_with(&fifo, wait_and_show);
    drop(turn);
    sleeper.join().unwrap()
}

/// Checks that the end of the last turn makes all waiting pops of a closed queue return `Closed`.
fn closed_and_handled() -> String {
    let fifo = bare();
    fifo.add(Object::new("a", 1)).unwrap();
    let turn = fifo.pop().unwrap();
    fifo.close();
    let sleepers = [spawn_with(&fifo, wait_and_show), spawn_with(&fifo, wait_and_show)];
    turn.done();
    sleepers.map(|sleeper| sleeper.join().unwrap()).join(" ")
}

fn a_producer_and_batches() -> String {
    let fifo = bare();
    let producer = spawn_with(&fifo, |fifo| {
        fifo.add(Object::new("a", 1)).unwrap();
        fifo.add(Object::new("b", 1)).unwrap();
        fifo.update(Object::new("a", 2)).unwrap();
    });
    let first = end_and_show(fifo.pop_batch(3));
    producer.join().unwrap();
    let mut batches = vec![first];
    batches.extend(std::iter::from_fn(|| fifo.try_pop_batch(3)).map(|turn| end_and_show(Ok(turn))));
    batches.join(" ")
}

/// Checks that a consumer that has handled the first relist finds the queue synced, even if the
/// call that offered the relist has not returned yet.
fn synced_by_its_turn() -> String {
    let fifo = bare();
    let relister = spawn_with(&fifo, |fifo| fifo.replace(vec![Object::new("a", 1)], "1").unwrap());
    let turn = fifo.pop().unwrap();
    assert!(turn.is_in_initial_list() && !fifo.has_synced(), "synced too early");
    let shown = end_and_show(Ok(turn));
    assert!(fifo.has_synced(), "synced too late");
    relister.join().unwrap();
    shown
}

/// Checks that an event taken behind the first relist does not belong to the initial list,
/// whichever thread takes it.
fn behind_the_initial_list() -> String {
    let fifo = bare();
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    fifo.resync();
    let take = |fifo: &Queue| {
        let turn = fifo.pop().unwrap();
        let mark = if turn.is_in_initial_list() { "!" } else { "" };
        format!("{}{mark}", end_and_show(Ok(turn)))
    };
    let other = spawn_with(&fifo, take);
    let mut taken = [take(&fifo), other.join().unwrap()];
    taken.sort_unstable();
    taken.join(" ")
}

/// Checks that the consumer that applies the second relist sees the generation stamps of the
/// first.
fn two_relists_and_two_consumers() -> String {
    let fifo = over(&[]);
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    fifo.replace(vec![Object::new("b", 2)], "2").unwrap();
    let handle = |fifo: &Queue| apply(&mut fifo.pop().unwrap());
    let other = spawn_with(&fifo, handle);
    handle(&fifo);
    other.join().unwrap();
    show_all(&fifo.store().list())
}

/// Reads the store while a relist is applied. A relist is atomic for handlers, not for readers.
fn a_reader_during_a_relist() -> String {
    let fifo = over(&[Object::new("a", 1), Object::new("b", 1)]);
    fifo.replace(vec![Object::new("a", 2)], "2").unwrap();
    let reader = spawn_with(&fifo, |fifo| show_all(&fifo.store().list()));
    apply(&mut fifo.pop().unwrap());
    assert_eq!(show_all(&fifo.store().list()), "a2");
    reader.join().unwrap()
}
