//! Tests of behaviour that shows only if threads interleave in a certain order, and of memory that
//! must be freed. All other tests are in `tests/`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::room::LEAST_ROOM;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::delays::Delays;
use super::entry::{Added, Entry, QueueState, Requested};
use super::limiter::default_controller_rate_limiter;
use super::line::{KeyOrder, NextKey, QueuePhase};
use super::options::AddOptions;
use super::shard::{EntryPlace, Shard};
use super::shared::SharedQueue;
use crate::util::sleep::wait_until_some;

const PLACE: EntryPlace = EntryPlace { shard: 0, slot: 0 };

fn schedule() -> QueueState {
    QueueState { line: Mutex::new(KeyOrder::new()), delays: Mutex::new(Delays::default()) }
}

fn place(slot: u32) -> EntryPlace {
    EntryPlace { shard: 0, slot }
}

fn next(line: &mut KeyOrder) -> u32 {
    match line.next() {
        NextKey::Key(place) => place.slot,
        NextKey::Empty | NextKey::ShutDown => panic!("the line is empty"),
    }
}

/// Checks that a raise affects no other key if its own key has been taken from the order of keys
/// (`line.rs`), but is not yet marked as processing in the shard.
#[test]
fn raise_of_a_just_taken_key_raises_no_other() {
    let mut line = KeyOrder::new();
    let taken = line.push(place(0), 0);
    line.push(place(1), 0);
    assert_eq!(next(&mut line), 0);
    line.raise(taken, place(0), 1);
    assert_eq!(line.push(place(2), 0), taken, "a number is reused");
    line.raise(taken, place(0), 1);
    assert_eq!((next(&mut line), next(&mut line)), (1, 2));
}

#[test]
fn key_has_at_most_one_delay() {
    let (schedule, now) = (schedule(), Instant::now());
    let mut entry = Entry::new("key", 0);
    let mut add = |secs: Option<u64>| {
        let at = secs.map(|secs| now + Duration::from_secs(secs));
        let added = entry.add(PLACE, Requested::default(), at, None, &schedule);
        (added == Added::WaitsFirst, schedule.delays.lock().len())
    };
    assert_eq!(add(Some(5)), (true, 1));
    assert_eq!(add(Some(3)), (true, 1));
    assert_eq!(add(Some(4)), (false, 1));
    assert_eq!(add(None), (false, 0));
    assert_eq!(add(Some(1)), (false, 0));
}

#[test]
fn keys_that_are_done_keep_no_memory() {
    let (schedule, mut shard) = (schedule(), Shard::default());
    for key in 0..100_000_u32 {
        let slot = shard.insert(u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15), key);
        let added = shard.entry(slot).add(place(slot), Requested::default(), None, None, &schedule);
        assert!(added == Added::Queued);
    }
    for _ in 0..100_000 {
        let slot = next(&mut schedule.line.lock());
        shard.take(slot, None);
        let (ended, ..) = shard.end(place(slot), &schedule);
        assert!(ended.idle);
    }
    let (entries, keys) = shard.capacity();
    assert!(entries <= 512 && schedule.line.lock().capacity() <= 512);
    assert!(keys <= 2 * LEAST_ROOM, "{keys}");
}

/// Checks that a late timer task does not end the new delay of a key. The task has taken the old
/// delay out and has not yet ended it in the shard when the key is processed and gets the new one.
#[test]
fn late_timer_task_ends_no_other_delay() {
    let (schedule, now) = (schedule(), Instant::now());
    let mut shard = Shard::default();
    // The key waits, and its delay is taken out.
    let wait = |shard: &mut Shard<&str>| {
        assert_eq!(shard.insert(0, "key"), PLACE.slot);
        assert!(
            shard.entry(PLACE.slot).add(PLACE, Requested::default(), Some(now), None, &schedule)
                == Added::WaitsFirst
        );
        schedule.delays.lock().due(now, 1)[0].0
    };
    // The key is taken and done, and so removed.
    let process = |shard: &mut Shard<&str>| {
        assert_eq!(next(&mut schedule.line.lock()), PLACE.slot);
        let _ = shard.take(PLACE.slot, None);
        let (_, _, gone) = shard.end(PLACE, &schedule);
        assert_eq!(gone, Some("key"));
    };

    let late = wait(&mut shard);
    assert!(
        shard.entry(PLACE.slot).add(PLACE, Requested::default(), None, None, &schedule)
            == Added::Queued
    );
    process(&mut shard);
    assert!(shard.due(PLACE, late, None, &schedule) == Added::Quietly, "the key is removed");
    let current = wait(&mut shard);
    assert!(shard.due(PLACE, late, None, &schedule) == Added::Quietly, "another key");
    assert!(shard.due(PLACE, current, None, &schedule) == Added::Queued);
    process(&mut shard);
    let late = wait(&mut shard);
    shard.close();
    assert!(shard.due(PLACE, late, None, &schedule) == Added::Quietly, "the queue has ended");
}

/// Checks that an event between two checks of the condition is not lost: the condition is checked
/// once before the event, and once after it.
#[test]
fn event_before_the_sleep_is_noticed() {
    let (place, mut checks) = (Notify::new(), 0);
    let sleep = wait_until_some(&place, || {
        checks += 1;
        let seen = (checks > 1).then_some(checks);
        place.notify_waiters();
        seen
    });
    assert_eq!(pin!(sleep).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(2));
}

/// Checks that a getter (a caller of `get`) uses up only one of two wake-ups, if two keys are added
/// between its second check and its sleep. The next getter is then woken as well.
#[test]
fn getter_about_to_sleep_counts_as_sleeping() {
    let place = Notify::new();
    let sleeps = |keys: usize| {
        let mut checks = 0;
        let sleep = wait_until_some(&place, || {
            checks += 1;
            if checks == 2 {
                (0..keys).for_each(|_| place.notify_one());
            }
            (checks > 2).then_some(checks)
        });
        pin!(sleep).poll(&mut Context::from_waker(Waker::noop()))
    };
    assert_eq!([sleeps(2), sleeps(0), sleeps(0)], [Poll::Ready(3), Poll::Ready(3), Poll::Pending]);
}

#[test]
fn shut_down_drops_the_delays() {
    let shared = SharedQueue::new(Box::new(default_controller_rate_limiter()), None);
    shared.add("key", AddOptions::new().after(Duration::from_secs(1)));
    assert!(shared.next_due().is_some());
    shared.end_with(QueuePhase::ShutDown);
    assert!(shared.next_due().is_none());
}

/// Checks that a shutdown closes all shards before it ends the order of keys (`line.rs`). Otherwise
/// an add could still queue a key after all getters have ended. The test locks the last shard, so
/// that the shutdown stops there.
#[test]
fn line_ends_only_when_every_shard_refuses_adds() {
    let shared = SharedQueue::<&str>::new(Box::new(default_controller_rate_limiter()), None);
    std::thread::scope(|threads| {
        let last = shared.shards.each().last();
        threads.spawn(|| shared.end_with(QueuePhase::ShutDown));
        while !shared.shards.each().next().is_some_and(|first| first.is_closed()) {
            std::thread::yield_now();
        }
        assert!(!shared.is_shutting_down());
        drop(last);
    });
    assert!(shared.is_shutting_down());
}
