//! Runs a handler: on a thread, in a task, or as a stream that the user polls.

use std::future::poll_fn;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::{self, Thread};

use futures_util::{FutureExt, Stream};
use tokio::runtime::Handle;
use tokio::task::coop::consume_budget;
use tracing::{Instrument, Span, trace_span};

use super::feed::{Delivery, Feed};
use super::notification::Notification;
use super::registration::Registration;
use crate::shared_informer::error::UserCode;
use crate::shared_informer::sync::STRIDE;

/// A running handler. Its drop removes the handler, even if the thread panics or the runtime shuts
/// down.
struct RunningHandler<K: Send + Sync + 'static> {
    registration: Registration<K>,
}

impl<K: Send + Sync + 'static> RunningHandler<K> {
    fn feed(&self) -> &Feed<K> {
        self.registration.feed()
    }

    async fn next(&self) -> Option<Delivery<K>> {
        poll_fn(|context| self.feed().poll(context)).await
    }
}

impl<K: Send + Sync + 'static> Drop for RunningHandler<K> {
    fn drop(&mut self) {
        self.registration.detach();
        self.feed().has_ended();
    }
}

/// Spawns a thread that calls `handler` with up to `most` notifications at a time, or with one more
/// if the last change replaces an object by another.
pub(in crate::shared_informer) fn spawn_thread<K: Send + Sync + 'static>(
    registration: Registration<K>,
    most: usize,
    mut handler: impl FnMut(Vec<Notification<K>>) + Send + 'static,
) -> io::Result<()> {
    let running = RunningHandler { registration };
    let run = move || {
        let _entered = running.feed().span.clone().entered();
        while let Some(first) = block_on(running.next()) {
            let (mut all, mut batch, mut next) = (Vec::new(), Vec::new(), Some(first));
            let mut rejected = 0;
            while let Some(mut delivery) = next {
                let accepted = notifications(&mut delivery);
                // A step that the filter rejects is marked as done at once, so that a walk over a
                // store of rejected objects does not collect them here.
                if accepted.is_empty() {
                    rejected += usize::from(!batch.is_empty());
                    running.feed().done(&delivery);
                } else {
                    all.push(delivery);
                    batch.extend(accepted);
                }
                // Bounded, so that a batch is not delayed by changes that the filter rejects.
                let has_room = batch.len() < most && rejected < most.min(STRIDE);
                next = has_room.then(|| running.next().now_or_never()).flatten().flatten();
            }
            if !batch.is_empty() {
                let span = call_span(batch.len());
                running
                    .feed()
                    .on_error
                    .catch(UserCode::BatchHandler, || span.in_scope(|| handler(batch)));
            }
            for delivery in &all {
                running.feed().done(delivery);
            }
        }
        // Dropped before the feed ends, because the destructor is user code, and stopping the
        // informer must wait for it.
        running.feed().on_error.catch(UserCode::HandlerDrop, || drop(handler));
    };
    thread::Builder::new().name("informer-handler".to_owned()).spawn(run).map(drop)
}

fn notifications<K>(delivery: &mut Delivery<K>) -> Vec<Notification<K>> {
    delivery.notifications.iter_mut().filter_map(Option::take).collect()
}

/// Spawns a task that calls `handler`.
pub(in crate::shared_informer) fn spawn_task<
    K: Send + Sync + 'static,
    F: Future<Output = ()> + Send,
>(
    runtime: &Handle,
    registration: Registration<K>,
    handler: impl FnMut(Notification<K>) -> F + Send + 'static,
) {
    runtime.spawn(run_handler(registration, handler));
}

/// Calls `handler` until the feed ends. If the future is dropped, the feed ends.
pub(in crate::shared_informer) fn run_handler<
    K: Send + Sync + 'static,
    F: Future<Output = ()> + Send,
>(
    registration: Registration<K>,
    mut handler: impl FnMut(Notification<K>) -> F + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let running = RunningHandler { registration };
    let span = running.feed().span.clone();
    let run = async move {
        while let Some(mut delivery) = running.next().await {
            for notification in notifications(&mut delivery) {
                let call = AssertUnwindSafe(
                    async { handler(notification).await }.instrument(call_span(1)),
                );
                if let Err(panic) = call.catch_unwind().await {
                    running.feed().on_error.report_panic(UserCode::Handler, panic);
                }
            }
            running.feed().done(&delivery);
            consume_budget().await;
        }
        running.feed().on_error.catch(UserCode::HandlerDrop, || drop(handler));
    };
    run.instrument(span)
}

/// Returns the span of a call with this number of notifications.
fn call_span(notifications: usize) -> Span {
    trace_span!("call", notifications)
}

/// Notifications as a [`Stream`], from
/// [`SharedInformer::subscribe`](crate::SharedInformer::subscribe). A notification counts as
/// handled when the next one is polled. The stream ends when the handler is removed or the informer
/// is stopped, but not between the two notifications of an object that was replaced by another.
/// Dropping the stream removes the handler.
pub struct Subscription<K: Send + Sync + 'static> {
    registration: Registration<K>,
    /// The notifications in progress.
    delivery: Option<Delivery<K>>,
}

impl<K: Send + Sync + 'static> Subscription<K> {
    pub(in crate::shared_informer) fn new(registration: Registration<K>) -> Self {
        Self { registration, delivery: None }
    }

    /// Returns the registration of the handler.
    #[must_use]
    pub fn registration(&self) -> &Registration<K> {
        &self.registration
    }
}

impl<K: Send + Sync + 'static> Stream for Subscription<K> {
    type Item = Notification<K>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Notification<K>>> {
        let this = &mut *self;
        loop {
            // A walk over a million objects that the filter rejects must not starve other tasks.
            ready!(pin!(consume_budget()).poll(context));
            if let Some(delivery) = &mut this.delivery {
                if let Some(next) = delivery.notifications.iter_mut().find_map(Option::take) {
                    return Poll::Ready(Some(next));
                }
                this.registration.feed().done(delivery);
                this.delivery = None;
            }
            match this.registration.feed().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(delivery) => this.delivery = delivery,
            }
        }
    }
}

impl<K: Send + Sync + 'static> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.registration.detach();
    }
}

/// Runs a future on this thread, and parks the thread while the future is pending.
fn block_on<R>(future: impl Future<Output = R>) -> R {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}
