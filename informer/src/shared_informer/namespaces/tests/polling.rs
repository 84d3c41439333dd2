//! Tests of how namespaces are polled and their waiters woken.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use deltafifo::locks::Mutex;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::task::yield_now;

use crate::shared_informer::namespaces::refused::RefusedNames;
use crate::shared_informer::source::Availability;
use crate::util::coop::within_budget;

#[tokio::test]
async fn no_namespace_is_polled_without_cooperative_budget() {
    let task = tokio::spawn(async {
        let polls = AtomicUsize::new(0);
        let entry = || {
            within_budget(poll_fn(|_| {
                polls.fetch_add(1, Ordering::Relaxed);
                Poll::<()>::Pending
            }))
        };
        let mut running: FuturesUnordered<_> = std::iter::repeat_with(entry).take(200).collect();
        poll_fn(|context| {
            while has_budget_remaining() {
                consume_budget().now_or_never();
            }
            assert!(running.poll_next_unpin(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(polls.load(Ordering::Relaxed), 0);

        yield_now().await;
        assert!(running.next().now_or_never().is_none());
        assert_eq!(polls.load(Ordering::Relaxed), 200, "they are polled with a new budget");
    });
    task.await.unwrap();
}

/// A waker that fails the test if a lock is held while it is called.
struct UnlockedWaker(AtomicUsize);

impl Wake for UnlockedWaker {
    fn wake(self: Arc<Self>) {
        assert_eq!(deltafifo::locks::held(), 0, "a waker was called under a lock");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn refused_namespace_wakes_waiters_with_no_lock_held() {
    let availability = watch::Sender::new(Availability::Unknown);
    let mut receiver = availability.subscribe();
    let refused = RefusedNames { names: Mutex::default(), availability };
    let waker = Arc::new(UnlockedWaker(AtomicUsize::new(0)));
    let mut wait = pin!(receiver.wait_for(|now| *now == Availability::Refused));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(context).is_pending());
    let waiter = Waker::from(waker.clone());
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waiter)).is_pending());
    refused.insert(&"green".into());
    assert_eq!(waker.0.load(Ordering::Relaxed), 1);
    assert!(wait.as_mut().poll(context).is_ready());
}
