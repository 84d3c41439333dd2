//! What only shows when threads meet at one moment, and what is kept though nobody sees it. The
//! rest is in `tests/`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use deltafifo::locks::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::delays::Delays;
use super::entry::{Added, Entry, Schedule};
use super::limiter::default_controller_rate_limiter;
use super::line::{Line, Next, Phase};
use super::options::AddOptions;
use super::shard::{Place, Shard};
use super::shared::Shared;
use crate::sleep::sleep_until_some;

const PLACE: Place = Place { shard: 0, slot: 0 };

fn schedule() -> Schedule {
    Schedule { line: Mutex::new(Line::new()), delays: Mutex::new(Delays::default()) }
}

fn place(slot: u32) -> Place {
    Place { shard: 0, slot }
}

fn next(line: &mut Line) -> u32 {
    match line.next() {
        Next::Key(place) => place.slot,
        Next::Empty | Next::ShutDown => panic!("the line is empty"),
    }
}

/// Whoever takes a key has left the line and is not at the shard yet, when an add raises the key.
#[test]
fn a_raise_of_a_key_that_was_just_taken_raises_no_other() {
    let mut line = Line::new();
    let taken = line.push(place(0), 0);
    line.push(place(1), 0);
    assert_eq!(next(&mut line), 0);
    line.raise(taken, place(0), 1);
    assert_eq!(line.push(place(2), 0), taken, "a number is used again");
    line.raise(taken, place(0), 1);
    assert_eq!((next(&mut line), next(&mut line)), (1, 2));
}

#[test]
fn a_key_has_one_time_at_most() {
    let (schedule, now) = (schedule(), Instant::now());
    let mut entry = Entry::new("key", 0);
    let mut add = |secs: Option<u64>| {
        let at = secs.map(|secs| now + Duration::from_secs(secs));
        let added = entry.add(PLACE, 0, at, None, &schedule);
        (added == Added::WaitsFirst, schedule.delays.lock().len())
    };
    assert_eq!(add(Some(5)), (true, 1));
    assert_eq!(add(Some(3)), (true, 1));
    assert_eq!(add(Some(4)), (false, 1));
    assert_eq!(add(None), (false, 0));
    assert_eq!(add(Some(1)), (false, 0));
}

/// The keeper has taken a time out and is not at the shard yet, when the key is processed and
/// waits again.
#[test]
fn a_keeper_that_comes_late_ends_no_other_waiting() {
    let (schedule, now) = (schedule(), Instant::now());
    let mut shard = Shard::default();
    // Waits, and has its time taken out.
    let wait = |shard: &mut Shard<&str>| {
        assert_eq!(shard.insert(0, "key"), PLACE.slot);
        assert!(
            shard.entry(PLACE.slot).add(PLACE, 0, Some(now), None, &schedule) == Added::WaitsFirst
        );
        schedule.delays.lock().due(now, 1)[0].0
    };
    // Is taken and done, and so gone.
    let process = |shard: &mut Shard<&str>| {
        assert_eq!(next(&mut schedule.line.lock()), PLACE.slot);
        let _ = shard.take(PLACE.slot, None);
        let (_, _, gone) = shard.end(PLACE, &schedule);
        assert_eq!(gone, Some("key"));
    };

    let late = wait(&mut shard);
    assert!(shard.entry(PLACE.slot).add(PLACE, 0, None, None, &schedule) == Added::Queued);
    process(&mut shard);
    assert!(shard.due(PLACE, late, None, &schedule) == Added::Quietly, "it is gone");
    let current = wait(&mut shard);
    assert!(shard.due(PLACE, late, None, &schedule) == Added::Quietly, "it is another");
    assert!(shard.due(PLACE, current, None, &schedule) == Added::Queued);
    process(&mut shard);
    let late = wait(&mut shard);
    shard.close();
    assert!(shard.due(PLACE, late, None, &schedule) == Added::Quietly, "the queue has ended");
}

/// One look is before what happens, the next after it.
#[test]
fn what_happens_on_the_way_to_sleep_is_seen() {
    let (place, mut looks) = (Notify::new(), 0);
    let sleep = sleep_until_some(&place, || {
        looks += 1;
        let seen = (looks > 1).then_some(looks);
        place.notify_waiters();
        seen
    });
    assert_eq!(pin!(sleep).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(2));
}

/// Two keys come between the second look of one sleeper and its sleep: the other one is woken, too.
#[test]
fn who_is_on_the_way_to_sleep_counts_as_asleep() {
    let place = Notify::new();
    let sleeps = |keys: usize| {
        let mut looks = 0;
        let sleep = sleep_until_some(&place, || {
            looks += 1;
            if looks == 2 {
                (0..keys).for_each(|_| place.notify_one());
            }
            (looks > 2).then_some(looks)
        });
        pin!(sleep).poll(&mut Context::from_waker(Waker::noop()))
    };
    assert_eq!([sleeps(2), sleeps(0), sleeps(0)], [Poll::Ready(3), Poll::Ready(3), Poll::Pending]);
}

#[test]
fn an_end_forgets_the_times() {
    let shared = Shared::new(Box::new(default_controller_rate_limiter()), None);
    shared.add("key", AddOptions::new().after(Duration::from_secs(1)));
    assert!(shared.next_due().is_some());
    shared.end_with(Phase::ShutDown);
    assert!(shared.next_due().is_none());
}

/// Else a getter could be told that there is nothing more, and a key be added after that which
/// nobody takes. Somebody holds the last shard, so that the end stops there.
#[test]
fn the_line_ends_only_when_every_shard_refuses_adds() {
    let shared = Shared::<&str>::new(Box::new(default_controller_rate_limiter()), None);
    std::thread::scope(|threads| {
        let last = shared.shards.each().last();
        threads.spawn(|| shared.end_with(Phase::ShutDown));
        while !shared.shards.each().next().is_some_and(|first| first.is_closed()) {
            std::thread::yield_now();
        }
        assert!(!shared.is_shutting_down());
        drop(last);
    });
    assert!(shared.is_shutting_down());
}
