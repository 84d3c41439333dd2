//! event-listener's `Event`, with one difference: the wakers of tasks run after its lock is
//! released.
//!
//! event-listener calls wakers with its lock held, and its counts become wrong if a waker panics.
//! But a waker is user code: it may poll its task at once, call the queue, or panic. So this module
//! registers a waker of its own, which only records the task to wake. The notifying thread calls
//! the recorded wakers after the lock is released. A panic of a waker is logged and ignored.

use std::cell::RefCell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use event_listener::{IntoNotification, Listener as _};

use super::locks::assert_none_held;
use crate::panics::ignore_panic;

pub(crate) struct Event(event_listener::Event);

impl Event {
    pub(crate) fn new() -> Self {
        Self(event_listener::Event::new())
    }

    pub(crate) fn listen(&self) -> EventListener {
        EventListener { listener: self.0.listen(), wake_on_drop: WakeOnDrop, deferred: None }
    }

    #[inline]
    pub(crate) fn notify(&self, notification: impl IntoNotification<Tag = ()>) {
        assert_none_held();
        if self.0.notify(notification) > 0 {
            wake_deferred();
        }
    }
}

/// A registered listener. Its fields are dropped in the order of their declaration: the drop of
/// `listener` may notify another listener, and the drop of `wake_on_drop` then wakes the task
/// of that listener.
pub(crate) struct EventListener {
    listener: event_listener::EventListener,
    wake_on_drop: WakeOnDrop,
    /// A second reference to the waker that event-listener holds, so that event-listener never
    /// drops the last reference with its lock held.
    deferred: Option<Arc<DeferredWaker>>,
}

/// A guard that wakes the recorded tasks when it is dropped: if a listener is dropped with an
/// unused notification, event-listener notifies the next listener instead.
struct WakeOnDrop;

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        wake_deferred();
    }
}

pub(crate) trait Listener {
    fn wait(self);
}

impl Listener for EventListener {
    fn wait(self) {
        let Self { listener, wake_on_drop: _wake_on_drop, .. } = self;
        listener.wait();
    }
}

impl Future for EventListener {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        assert_none_held();
        let this = &mut *self;
        let before = this.deferred.take();
        let deferred = match &before {
            Some(deferred) if deferred.0.will_wake(context.waker()) => deferred.clone(),
            _ => Arc::new(DeferredWaker(context.waker().clone())),
        };
        this.deferred = Some(deferred.clone());
        Pin::new(&mut this.listener).poll(&mut Context::from_waker(&Waker::from(deferred)))
        // `before` is dropped here, with no lock held.
    }
}

/// The waker of a task, to be called after event-listener's lock is released.
struct DeferredWaker(Waker);

thread_local! {
    /// The tasks that this thread has notified and not woken yet. Not dropped when the thread ends,
    /// because the destructors of other thread-local variables may notify after that. The list is
    /// empty between two notifications, so nothing is leaked.
    static DEFERRED: RefCell<ManuallyDrop<Vec<Arc<DeferredWaker>>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

impl Wake for DeferredWaker {
    fn wake(self: Arc<Self>) {
        let mut deferred = Some(self);
        // On a platform without native thread-local variables, an ending thread has no list.
        let _ = DEFERRED.try_with(|list| list.borrow_mut().extend(deferred.take()));
        deferred.into_iter().for_each(wake);
    }
}

/// Wakes a task. The drop of a waker is user code, too.
fn wake(deferred: Arc<DeferredWaker>) {
    if ignore_panic(move || deferred.0.wake_by_ref()).is_none() {
        ignore_panic(|| {
            tracing::error!("waker panicked; the task that it belongs to is not woken by it");
        });
    }
}

/// Wakes the recorded tasks, with no lock held. A waker may notify again.
#[cold] // Consumers rarely sleep, so this is not inlined into every offer.
fn wake_deferred() {
    let deferred = DEFERRED.try_with(RefCell::take).unwrap_or_default();
    ManuallyDrop::into_inner(deferred).into_iter().for_each(wake);
}
