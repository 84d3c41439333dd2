//! Tests of items, and of user code that panics.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use deltafifo_informer::workqueue::{
    AddOptions, BucketRateLimiter, BuildError, Builder, Item, ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter, JitteredRateLimiter, MaxOfRateLimiter, RateLimiter,
    WithMaxWaitRateLimiter, WorkQueue,
};
use deltafifo_oracle::workqueue::{Sleeper, poll};

use crate::common::{Queue, idle, ms, next, queue, rest, spawn};

#[tokio::test]
async fn public_types_can_move_between_threads() {
    fn all<T: Send + Sync>() {}
    fn is_send(_: impl Send) {}
    all::<WorkQueue<String>>();
    all::<Item<String>>();
    all::<AddOptions>();
    all::<BuildError>();
    all::<Box<dyn RateLimiter<String>>>();
    all::<ItemExponentialFailureRateLimiter<String>>();
    all::<ItemFastSlowRateLimiter<String>>();
    all::<BucketRateLimiter>();
    all::<MaxOfRateLimiter<String>>();
    all::<WithMaxWaitRateLimiter<BucketRateLimiter>>();
    all::<JitteredRateLimiter<BucketRateLimiter>>();
    all::<Builder<String>>();
    let queue = queue::<String>();
    is_send(queue.get());
    is_send(queue.shut_down_with_drain());
}

#[tokio::test]
async fn dropped_item_is_done() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get();
    queue.add("foo");
    drop(item);
    assert_eq!(rest(&queue), ["foo"]);
}

#[tokio::test(start_paused = true)]
async fn panicking_or_aborted_reconciler_blocks_no_key() {
    let queue = queue();
    queue.add("panics");
    queue.add("aborted");
    let panics = spawn(&queue, async |queue: Queue| {
        let _item = queue.get().await;
        resume_unwind(Box::new("a reconciler that panics"));
    });
    let aborted = spawn(&queue, async |queue: Queue| {
        let _item = queue.get().await;
        std::future::pending::<()>().await;
    });
    idle().await;
    queue.add("aborted");
    queue.add("panics");
    assert!(panics.await.is_err_and(|error| error.is_panic()));
    aborted.abort();
    assert!(aborted.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(rest(&queue), ["panics", "aborted"]);
}

#[tokio::test]
async fn item_may_outlive_its_queue() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    drop(queue);
    assert_eq!(format!("{item:?}"), r#"Item { key: "foo", priority: 0, .. }"#);
    item.done();
}

/// A key whose clone panics once.
#[derive(Debug)]
struct Fragile(Arc<AtomicBool>);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        if self.0.swap(false, Ordering::SeqCst) {
            resume_unwind(Box::new("a clone that panics"));
        }
        Self(Arc::clone(&self.0))
    }
}

impl PartialEq for Fragile {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Fragile {}

impl std::hash::Hash for Fragile {
    fn hash<H: std::hash::Hasher>(&self, _state: &mut H) {}
}

#[tokio::test]
async fn key_whose_clone_panics_is_not_kept() {
    let (queue, fragile) = (queue(), Arc::new(AtomicBool::new(true)));
    queue.add(Fragile(Arc::clone(&fragile)));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.try_get())).is_err());
    assert_eq!(Arc::strong_count(&fragile), 1, "taken once and released");
    queue.add(Fragile(fragile));
    assert!(queue.try_get().is_some());
}

/// A key that panics in its drop a given number of times.
#[derive(Clone)]
struct Heavy(Arc<AtomicUsize>);

impl Drop for Heavy {
    fn drop(&mut self) {
        if self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |remaining| remaining.checked_sub(1))
            .is_ok()
        {
            resume_unwind(Box::new("a drop that panics"));
        }
    }
}

impl PartialEq for Heavy {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Heavy {}

impl std::hash::Hash for Heavy {
    fn hash<H: std::hash::Hasher>(&self, _state: &mut H) {}
}

/// Checks that the processing of a key whose drop panics ends, and that a drain ends with it. First
/// only the drop of the queue's own copy of the key panics; then also the drop of the item's copy,
/// while the first panic unwinds.
#[tokio::test]
async fn key_whose_drop_panics_ends_its_processing_and_the_drain() {
    for panics in [1, 2] {
        let (queue, remaining) = (queue(), Arc::new(AtomicUsize::new(0)));
        queue.add(Heavy(Arc::clone(&remaining)));
        let item = queue.try_get().unwrap();
        let mut drain = Sleeper::of(queue.shut_down_with_drain());
        remaining.store(panics, Ordering::SeqCst);
        let ended =
            catch_unwind(AssertUnwindSafe(|| if panics == 1 { item.done() } else { drop(item) }));
        assert_eq!(ended.is_err(), panics == 2, "only the item's own key is the caller's");
        assert_eq!(remaining.load(Ordering::SeqCst), 0);
        assert!(drain.is_woken() && drain.poll().is_some());
    }
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        resume_unwind(Box::new("a waker that panics"));
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_waker_affects_neither_add_nor_timer_task_nor_done() {
    let queue = queue();
    let waker = Waker::from(Arc::new(Panics));
    let sleep = || {
        let mut sleeper = Box::pin(queue.get());
        assert!(poll(&mut sleeper, &waker).is_none());
        sleeper
    };

    let sleeper = sleep();
    queue.add("added");
    drop(sleeper);
    let item = queue.try_get().unwrap();

    let sleeper = sleep();
    queue.add("added");
    item.done();
    drop(sleeper);
    assert_eq!(rest(&queue), ["added"]);

    let sleeper = sleep();
    queue.add_after("later", ms(1));
    idle().await;
    idle().await;
    drop(sleeper);
    assert_eq!(rest(&queue), ["later"]);
    queue.add_after("still later", ms(1));
    assert_eq!(next(&queue).await, Some("still later"), "the keeper lives");
}

/// The number of futures that wait for the queue in a test. It is larger than the number of waiters
/// that tokio wakes in one batch.
const SLEEPERS: usize = 40;

#[tokio::test]
async fn panicking_waker_does_not_block_the_shutdown_of_other_getters() {
    let queue = queue::<u32>();
    let mut poor = Box::pin(queue.get());
    assert!(poll(&mut poor, &Waker::from(Arc::new(Panics))).is_none());
    let mut getters: Vec<_> = (0..SLEEPERS).map(|_| Sleeper::of(queue.get())).collect();
    queue.shut_down();
    assert!(getters.iter_mut().all(|getter| getter.is_woken() && getter.poll().is_some()));
}

#[tokio::test]
async fn panicking_waker_does_not_block_other_drains() {
    for shut_down in [false, true] {
        let queue = queue();
        queue.add("foo");
        let item = queue.try_get().unwrap();
        // All of them are created first, because creating one wakes the sleeping ones.
        let (poor, drains): (_, Vec<_>) = (
            queue.shut_down_with_drain(),
            (0..SLEEPERS).map(|_| queue.shut_down_with_drain()).collect(),
        );
        let mut poor = Box::pin(poor);
        assert!(poll(&mut poor, &Waker::from(Arc::new(Panics))).is_none());
        let mut drains: Vec<_> = drains.into_iter().map(Sleeper::of).collect();
        if shut_down {
            queue.shut_down();
        } else {
            item.done();
        }
        assert!(drains.iter_mut().all(|drain| drain.is_woken() && drain.poll().is_some()));
    }
}

/// Checks that a woken getter that is dropped passes its wake-up on: to a getter whose waker
/// panics, and, when that one is dropped, to the next.
#[tokio::test]
async fn panicking_waker_does_not_affect_a_dropped_getter() {
    let queue = queue();
    let goes = Sleeper::of(queue.get());
    let mut poor = Box::pin(queue.get());
    assert!(poll(&mut poor, &Waker::from(Arc::new(Panics))).is_none());
    let mut last = Sleeper::of(queue.get());
    queue.add("foo");
    assert!(goes.is_woken());
    drop(goes);
    assert!(!last.is_woken(), "the wake-up goes to the other getter");
    drop(poor);
    assert!(last.is_woken());
    assert_eq!(last.poll().flatten().map(|item| *item.key()), Some("foo"));
}

/// A key that calls its queue in its drop.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Forgets;

static FORGETS: OnceLock<WorkQueue<Forgets>> = OnceLock::new();

impl Drop for Forgets {
    fn drop(&mut self) {
        if let Some(queue) = FORGETS.get() {
            queue.forget(self);
        }
    }
}

/// Checks that an add drops a key with no lock held: the key calls its queue in its drop. The adds
/// run on a separate thread, so that a deadlock fails the test and does not hang it.
#[tokio::test]
async fn key_may_use_its_queue_when_an_add_drops_it() {
    let queue = FORGETS.get_or_init(|| WorkQueue::builder().build().unwrap());
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        for _ in 0..2 {
            queue.add_after(Forgets, ms(60_000));
            queue.add_rate_limited(Forgets);
            queue.add_rate_limited(Forgets);
            queue.add(Forgets);
        }
        queue.shut_down();
        queue.add(Forgets);
        done.send(())
    });
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(()));
}

/// A waker that calls its queue in its drop.
struct CallsBack(Arc<WorkQueue<u32>>);

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {}
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        let _ = self.0.len();
    }
}

/// Checks that the queue drops its copies of wakers with no lock held: a copy that another one
/// replaces, that of a getter that is dropped, and that of a getter that is woken. The getters run
/// on a separate thread, so that a deadlock fails the test and does not hang it.
#[tokio::test]
async fn waker_may_use_the_queue_that_drops_it() {
    let queue = queue();
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let waker = || Waker::from(Arc::new(CallsBack(Arc::clone(&queue))));
        let mut dropped = Box::pin(queue.get());
        for _ in 0..2 {
            assert!(poll(&mut dropped, &waker()).is_none());
        }
        drop(dropped);
        let mut woken = Box::pin(queue.get());
        assert!(poll(&mut woken, &waker()).is_none());
        queue.add(1);
        assert!(poll(&mut woken, &waker()).is_some());
        let mut shut_down = Box::pin(queue.get());
        assert!(poll(&mut shut_down, &waker()).is_none());
        queue.shut_down();
        done.send(())
    });
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(()));
}
