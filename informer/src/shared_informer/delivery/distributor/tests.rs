//! Tests of the list of handlers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};

use deltafifo::{Indexer, KeyFunc, NoMeta};

use super::*;

fn distributor() -> Distributor<String> {
    let store = Indexer::builder(KeyFunc::custom(NoMeta, |key: &String| Ok(key.clone()))).build();
    Distributor::new(store.expect("a store without indexes").reader(), 1)
}

#[test]
fn removed_handlers_are_not_kept_in_the_list() {
    let distributor = distributor();
    for _ in 0..100 {
        let on_error = OnError(Arc::new(|_| ()));
        let feed = Arc::new(distributor.feed(HandlerOptions::new(), None, true, on_error));
        assert!(distributor.add(&feed));
        distributor.remove(&feed);
        assert!(!feed.state().borrow().has_ended, "the handler is still running");
        feed.has_ended();
    }
    assert!(distributor.feeds().is_empty());
    let left = distributor.list.lock().last.len();
    assert!(left <= 1, "the states of {left} removed handlers are kept");
}

/// A waker that records that it was dropped, and fails the test if a lock is held then.
struct UnlockedWaker(Arc<AtomicBool>);

impl Wake for UnlockedWaker {
    fn wake(self: Arc<Self>) {}
}

impl Drop for UnlockedWaker {
    fn drop(&mut self) {
        assert_eq!(deltafifo::locks::held(), 0, "a waker was dropped under a lock");
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks that the feed holds no lock while it drops a waker that it does not need: a step arrives
/// after the first check of the inbox and before the feed stores the waker.
#[test]
fn waker_that_is_not_needed_is_dropped_with_no_lock_held() {
    let distributor = distributor();
    let on_error = OnError(Arc::new(|_| ()));
    let feed = Arc::new(distributor.feed(HandlerOptions::new(), None, true, on_error));
    assert!(distributor.add(&feed));
    let dropped = Arc::new(AtomicBool::new(false));
    while let Poll::Ready(Some(_)) = feed.next(None) {}
    feed.offer(Step {
        key: "a".into(),
        delivered: None,
        now: CurrentState::Stored(Arc::new("a".to_owned())),
        cause: Cause::Watch,
        is_in_initial_list: false,
        is_walked: false,
        since: Instant::now(),
    });
    let waker = Waker::from(Arc::new(UnlockedWaker(dropped.clone())));
    assert!(matches!(feed.next(Some(waker)), Poll::Ready(Some(_))));
    assert!(dropped.load(Ordering::Relaxed), "the waker was dropped by now");
}
