//! The thinnest stand-ins for what loom has no type of. Only compiled under `--cfg deltafifo_loom`.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

/// `parking_lot::Mutex` without poisoning, over loom's.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// `parking_lot::RwLock` without poisoning, over loom's.
pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap()
    }

    pub(crate) fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap()
    }
}

/// Stronger than the real queue (a mutex orders what it does not): see the facade's docs.
pub(crate) struct SegQueue<T>(Mutex<VecDeque<T>>);

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    pub(crate) fn push(&self, value: T) {
        self.0.lock().push_back(value);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.lock().pop_front()
    }
}

/// Counts notifications; a listener waits for one after its own registration.
pub(crate) struct Event {
    epoch: loom::sync::Arc<(loom::sync::Mutex<usize>, loom::sync::Condvar)>,
}

impl Event {
    pub(crate) fn new() -> Self {
        Self { epoch: loom::sync::Arc::new((loom::sync::Mutex::new(0), loom::sync::Condvar::new())) }
    }

    pub(crate) fn listen(&self) -> EventListener {
        let seen = *self.epoch.0.lock().unwrap();
        EventListener { epoch: self.epoch.clone(), seen }
    }

    pub(crate) fn notify(&self, _notification: usize) {
        *self.epoch.0.lock().unwrap() += 1;
        self.epoch.1.notify_all();
    }
}

pub(crate) trait IntoNotification {
    fn additional(self) -> usize;
}

impl IntoNotification for usize {
    fn additional(self) -> usize {
        self
    }
}

pub(crate) trait Listener {
    fn wait(self);
    fn wait_deadline(self, deadline: Instant) -> Option<()>;
}

pub(crate) struct EventListener {
    epoch: loom::sync::Arc<(loom::sync::Mutex<usize>, loom::sync::Condvar)>,
    seen: usize,
}

impl Listener for EventListener {
    fn wait(self) {
        let mut now = self.epoch.0.lock().unwrap();
        while *now == self.seen {
            now = self.epoch.1.wait(now).unwrap();
        }
    }

    /// Models have no clock: a deadline never passes.
    fn wait_deadline(self, _deadline: Instant) -> Option<()> {
        self.wait();
        Some(())
    }
}

impl Future for EventListener {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if *self.epoch.0.lock().unwrap() == self.seen {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
