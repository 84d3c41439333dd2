//! event-listener's `Event`, except that the wakers of tasks run after its lock is released.
//!
//! event-listener calls wakers with its lock held, and its counts become wrong if one panics. But
//! a waker is user code: it may poll its task at once, call the queue, or panic. So the waker
//! that is registered here only records which task to wake, and the notifying thread calls the
//! recorded wakers after the lock is released. A panic of a waker is logged and goes no further.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use event_listener::{IntoNotification, Listener as _};

use super::locks::assert_none_held;
use crate::error::unharmed;

pub(crate) struct Event(event_listener::Event);

impl Event {
    pub(crate) fn new() -> Self {
        Self(event_listener::Event::new())
    }

    pub(crate) fn listen(&self) -> EventListener {
        EventListener { line: self.0.listen(), passed_on: PassedOn, woken: None }
    }

    #[inline]
    pub(crate) fn notify(&self, notification: impl IntoNotification<Tag = ()>) {
        assert_none_held();
        if self.0.notify(notification) > 0 {
            run_woken();
        }
    }
}

/// A registered listener. Its fields are dropped in this order.
pub(crate) struct EventListener {
    line: event_listener::EventListener,
    passed_on: PassedOn,
    /// A second reference, so that event-listener never drops the last one with its lock held.
    woken: Option<Arc<Woken>>,
}

/// Wakes the recorded tasks on drop: a listener that is dropped with an unused notification
/// passes it on to the next one.
struct PassedOn;

impl Drop for PassedOn {
    fn drop(&mut self) {
        run_woken();
    }
}

pub(crate) trait Listener {
    fn wait(self);
    fn wait_deadline(self, deadline: Instant) -> Option<()>;
}

impl Listener for EventListener {
    fn wait(self) {
        let Self { line, passed_on: _passed_on, .. } = self;
        line.wait();
    }

    fn wait_deadline(self, deadline: Instant) -> Option<()> {
        let Self { line, passed_on: _passed_on, .. } = self;
        line.wait_deadline(deadline)
    }
}

impl Future for EventListener {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        assert_none_held();
        let this = &mut *self;
        let before = this.woken.take();
        let woken = match &before {
            Some(woken) if woken.0.will_wake(context.waker()) => woken.clone(),
            _ => Arc::new(Woken(context.waker().clone())),
        };
        this.woken = Some(woken.clone());
        Pin::new(&mut this.line).poll(&mut Context::from_waker(&Waker::from(woken)))
        // `before` is dropped here, with no lock held.
    }
}

/// The waker of a task, to be called after event-listener's lock is released.
struct Woken(Waker);

thread_local! {
    /// The tasks that this thread has notified and not woken yet.
    static WOKEN: RefCell<Vec<Arc<Woken>>> = const { RefCell::new(Vec::new()) };
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let mut woken = Some(self);
        // In a thread that is ending, the list may already be destroyed.
        let _ = WOKEN.try_with(|list| list.borrow_mut().extend(woken.take()));
        woken.into_iter().for_each(run);
    }
}

/// Wakes a task. The drop of a waker is user code, too.
fn run(woken: Arc<Woken>) {
    if unharmed(move || woken.0.wake_by_ref()).is_none() {
        unharmed(|| tracing::error!("the waker of a task that waits for the queue panicked"));
    }
}

/// Wakes the recorded tasks, with no lock held. A waker may notify again.
#[cold] // Not inlined into every offer: somebody sleeps seldom.
fn run_woken() {
    let woken = WOKEN.try_with(RefCell::take).unwrap_or_default();
    woken.into_iter().for_each(run);
}
