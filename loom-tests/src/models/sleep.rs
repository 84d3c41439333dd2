//! Models of sleeping consumers against push and against close: no wake-up is lost. loom reports a
//! consumer that is never woken as a deadlock.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::future::block_on;
use loom::sync::Arc;
use loom::thread::JoinHandle;

use crate::explore::Model;
use crate::rig::{Fifo, Object, bare, end_and_show, fused, spawn_with, wait_and_show};

pub const MODELS: &[Model] = &[
    Model {
        name: "sleep::one_sleeper_and_an_add",
        bound: None,
        at_least: 280,
        outcomes: &["[+a1]"],
        body: one_sleeper_and_an_add,
    },
    Model {
        name: "sleep::one_sleeper_and_close",
        bound: None,
        at_least: 73_590,
        outcomes: &["[+a1]"],
        body: one_sleeper_and_close,
    },
    Model {
        name: "sleep::two_sleepers_and_two_adds",
        bound: Some(3), // 9.9 s
        at_least: 41_060,
        outcomes: &["[+a1] [+b1]", "[+b1] [+a1]"],
        body: two_sleepers_and_two_adds,
    },
    Model {
        name: "sleep::two_sleepers_and_close",
        bound: Some(4), // 10 s
        at_least: 66_700,
        outcomes: &["closed closed"],
        body: two_sleepers_and_close,
    },
    Model {
        name: "sleep::an_async_sleeper_and_an_add",
        bound: None,
        at_least: 680,
        outcomes: &["[+a1]"],
        body: an_async_sleeper_and_an_add,
    },
    Model {
        name: "sleep::an_async_sleeper_and_close",
        bound: None,
        at_least: 18_480,
        outcomes: &["[+a1]"],
        body: an_async_sleeper_and_close,
    },
    Model {
        name: "sleep::cancelled",
        bound: Some(3), // 3.5 s
        at_least: 14_610,
        outcomes: &["[+a1] [+b1]", "cancelled [+a1]"],
        body: cancelled,
    },
    Model {
        name: "sleep::requeue_wakes",
        bound: None,
        at_least: 38,
        outcomes: &["[+a1]"],
        body: requeue_wakes,
    },
    Model {
        name: "sleep::resync_wakes",
        bound: None,
        at_least: 38,
        outcomes: &["[:a1]"],
        body: resync_wakes,
    },
    Model {
        name: "sleep::sweep_wakes_two",
        bound: Some(3), // 29 s
        at_least: 98_800,
        outcomes: &["[-a1] [-b1]", "[-b1] [-a1]"],
        body: sweep_wakes_two,
    },
    Model {
        name: "sleep::settle_wakes",
        bound: None,
        at_least: 38,
        outcomes: &["[~a2]"],
        body: settle_wakes,
    },
    Model {
        name: "sleep::settled_sync_wakes",
        bound: None,
        at_least: 38,
        outcomes: &["[:a1]"],
        body: settled_sync_wakes,
    },
];

/// Starts a consumer that takes one key, or learns that the queue is closed and empty.
fn sleeper(fifo: &Arc<Fifo>) -> JoinHandle<String> {
    spawn_with(fifo, wait_and_show)
}

/// Adds a key, and closes the queue if `then_close`, while a consumer may sleep in `wait`.
fn an_add_for(wait: fn(&Fifo) -> String, then_close: bool) -> String {
    let fifo = bare();
    let sleeper = spawn_with(&fifo, wait);
    fifo.add(Object::new("a", 1)).unwrap();
    if then_close {
        fifo.close();
    }
    sleeper.join().unwrap()
}

fn one_sleeper_and_an_add() -> String {
    an_add_for(wait_and_show, false)
}

fn one_sleeper_and_close() -> String {
    an_add_for(wait_and_show, true)
}

fn two_sleepers_and_two_adds() -> String {
    let fifo = bare();
    let (one, other) = (sleeper(&fifo), sleeper(&fifo));
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.add(Object::new("b", 1)).unwrap();
    format!("{} {}", one.join().unwrap(), other.join().unwrap())
}

fn two_sleepers_and_close() -> String {
    let fifo = bare();
    let (one, other) = (sleeper(&fifo), sleeper(&fifo));
    fifo.close();
    format!("{} {}", one.join().unwrap(), other.join().unwrap())
}

/// Waits like [`wait_and_show`], as a future.
async fn wait_async(fifo: &Fifo) -> String {
    end_and_show(fifo.pop_async().await)
}

fn block_and_show(fifo: &Fifo) -> String {
    block_on(wait_async(fifo))
}

fn an_async_sleeper_and_an_add() -> String {
    an_add_for(block_and_show, false)
}

fn an_async_sleeper_and_close() -> String {
    an_add_for(block_and_show, true)
}

/// Checks that a future that is dropped while it waits passes its wake-up on to the next sleeping
/// consumer.
fn cancelled() -> String {
    let fifo = bare();
    let cancelled = spawn_with(&fifo, |fifo| {
        let mut waiting = pin!(wait_async(fifo));
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(shown) => shown,
            Poll::Pending => "cancelled".to_owned(),
        }
    });
    let sleeper = sleeper(&fifo);
    fifo.add(Object::new("a", 1)).unwrap();
    let cancelled = cancelled.join().unwrap();
    if cancelled != "cancelled" {
        fifo.add(Object::new("b", 1)).unwrap();
    }
    format!("{cancelled} {}", sleeper.join().unwrap())
}

fn requeue_wakes() -> String {
    let fifo = bare();
    fifo.add(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    let sleeper = sleeper(&fifo);
    item.requeue();
    sleeper.join().unwrap()
}

fn resync_wakes() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    let sleeper = sleeper(&fifo);
    fifo.resync();
    sleeper.join().unwrap()
}

fn sweep_wakes_two() -> String {
    let fifo = fused(&[Object::new("a", 1), Object::new("b", 1)]);
    let (one, other) = (sleeper(&fifo), sleeper(&fifo));
    fifo.begin_replace().commit("1").unwrap();
    format!("{} {}", one.join().unwrap(), other.join().unwrap())
}

/// Checks that the end of a handler wakes a sleeping consumer for a delta that was pushed on the
/// running slot.
fn settle_wakes() -> String {
    let fifo = bare();
    fifo.add(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    fifo.update(Object::new("a", 2)).unwrap();
    let sleeper = sleeper(&fifo);
    item.done();
    sleeper.join().unwrap()
}

/// Checks that the end of a handler wakes a sleeping consumer for a Sync that was pushed on the
/// running slot.
fn settled_sync_wakes() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    fifo.update(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    fifo.resync();
    let sleeper = sleeper(&fifo);
    item.done();
    sleeper.join().unwrap()
}
