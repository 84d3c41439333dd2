//! event-listener's `Event`, with the wakers of tasks run after its lock.
//!
//! It runs wakers with its own lock held, and counts wrongly once one panics. But a waker is a stranger's: it may poll its
//! task at once, call the queue, or panic. So the waker that stands in line is one of ours, which only notes whose turn it
//! is; whoever notified runs those when the line is left. What a waker panics with goes to the log, and to nobody else.

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

/// Its fields are dropped in this order.
pub(crate) struct EventListener {
    line: event_listener::EventListener,
    passed_on: PassedOn,
    /// Kept here too, so that the line never drops the last of it with its lock held.
    woken: Option<Arc<Woken>>,
}

/// A listener that leaves with a notification that it did not use hands it to the next in line.
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
        // Here `before` ends, with no lock held.
    }
}

/// A task's waker, to be run when the line's lock is released.
struct Woken(Waker);

thread_local! {
    /// Whom this thread has notified, and not woken yet.
    static WOKEN: RefCell<Vec<Arc<Woken>>> = const { RefCell::new(Vec::new()) };
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let mut woken = Some(self);
        // In a thread that ends the list may be gone already.
        let _ = WOKEN.try_with(|list| list.borrow_mut().extend(woken.take()));
        woken.into_iter().for_each(run);
    }
}

/// Wakes a task. A waker's drop is a stranger's code, too.
fn run(woken: Arc<Woken>) {
    if unharmed(move || woken.0.wake_by_ref()).is_none() {
        unharmed(|| tracing::error!("the waker of a task that waits for the queue panicked"));
    }
}

/// With no lock held. A waker may notify in its turn.
#[cold] // Not inlined into every offer: somebody sleeps seldom.
fn run_woken() {
    let woken = WOKEN.try_with(RefCell::take).unwrap_or_default();
    woken.into_iter().for_each(run);
}
