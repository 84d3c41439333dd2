//! Minimal replacements for types that the model checkers lack. Only compiled in models.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::ops::{Deref, Range};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::imp::model::sync as model;
use super::imp::model::sync::atomic::{AtomicUsize, Ordering};
use super::mutants::mutant;

/// A mutex of the model with the methods of `parking_lot::Mutex`, which has no poisoning.
pub(crate) struct Mutex<T>(model::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(model::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> model::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// A lock of the model with the methods of `parking_lot::RwLock`, which has no poisoning.
pub(crate) struct RwLock<T> {
    lock: model::RwLock<T>,
    upgradable: model::Mutex<()>,
}

/// A guard that excludes other upgradable readers. Upgrading it is not needed.
pub(crate) struct RwLockUpgradableReadGuard<'a, T> {
    // Dropped before `_upgradable`.
    shared: model::RwLockReadGuard<'a, T>,
    _upgradable: Option<model::MutexGuard<'a, ()>>,
}

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { lock: model::RwLock::new(value), upgradable: model::Mutex::new(()) }
    }

    pub(crate) fn read(&self) -> model::RwLockReadGuard<'_, T> {
        self.lock.read().unwrap()
    }

    pub(crate) fn upgradable_read(&self) -> RwLockUpgradableReadGuard<'_, T> {
        let upgradable = Some(self.upgradable.lock().unwrap());
        mutant!(OffersLetOffersIn => let upgradable = { drop(upgradable); None });
        RwLockUpgradableReadGuard { shared: self.read(), _upgradable: upgradable }
    }

    pub(crate) fn write(&self) -> model::RwLockWriteGuard<'_, T> {
        self.lock.write().unwrap()
    }
}

impl<T> Deref for RwLockUpgradableReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared
    }
}

/// A replacement for `arc_swap::ArcSwap` with the weakest ordering that callers may rely on: a load
/// synchronises only with the store that it reads, and a thread that is not ordered after the
/// newest store may read the value of an older one. All stored values are kept.
pub(crate) struct ArcSwap<T> {
    /// The index of the newest value.
    newest: super::imp::AtomicUsize,
    /// All stored values. The lock is never held across a step of the model.
    stored: std::sync::Mutex<Vec<model::Arc<T>>>,
}

impl<T> From<model::Arc<T>> for ArcSwap<T> {
    fn from(first: model::Arc<T>) -> Self {
        Self { newest: super::imp::AtomicUsize::new(0), stored: std::sync::Mutex::new(vec![first]) }
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn load(&self) -> Box<model::Arc<T>> {
        let newest = self.newest.load(Ordering::Acquire);
        Box::new(self.stored.lock().unwrap()[newest].clone())
    }

    /// Stores a value. The callers ensure that stores do not overlap.
    pub(crate) fn store(&self, value: model::Arc<T>) {
        let mut stored = self.stored.lock().unwrap();
        stored.push(value);
        let newest = stored.len() - 1;
        drop(stored);
        self.newest.store(newest, Ordering::Release);
    }
}

/// A queue with the weakest ordering that callers may rely on: a push happens before the pop that
/// returns its value, and a thread that is not ordered after a push may not see it yet. A deque
/// behind a mutex would order calls that the real queue does not order, and would always show the
/// newest state; it would hide faults that depend on either. The fields are plain atomics of the
/// model, without the gates of [`gated`](super::gated), which keeps the models small.
pub(crate) struct SegQueue<T> {
    /// The number of pushed entries.
    pushed: AtomicUsize,
    /// Atomics that order a push before the pop of its entry. Created with the queue, because loom
    /// reports a race for an atomic whose creation is not ordered before its use.
    published: [AtomicUsize; CELLS],
    /// The entries. The lock is never held across a step of the model, so no thread waits for it.
    entries: std::sync::Mutex<Entries<T>>,
}

/// The number of atomics in `published`. No model queues more entries.
const CELLS: usize = 8;

struct Entries<T> {
    /// The number of the next entry. It identifies the entry and implies no order.
    next: usize,
    popped: usize,
    queue: VecDeque<(usize, T)>,
}

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            pushed: AtomicUsize::new(0),
            published: std::array::from_fn(|_| AtomicUsize::new(0)),
            entries: std::sync::Mutex::new(Entries { next: 0, popped: 0, queue: VecDeque::new() }),
        }
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap()
    }

    pub(crate) fn push(&self, value: T) {
        let name = {
            let mut entries = self.entries();
            entries.next += 1;
            entries.next
        };
        // Release, paired with the Acquire of the pop that returns this entry.
        self.published[name % CELLS].fetch_add(1, Ordering::Release);
        // Relaxed, because it must synchronise nothing. The code up to the next atomic belongs to
        // the same step.
        self.pushed.fetch_add(1, Ordering::Relaxed);
        self.entries().queue.push_back((name, value));
    }

    pub(crate) fn len(&self) -> usize {
        // Relaxed: as in `pop`. The load is a step of the model, so it comes before the lock.
        let pushed = self.pushed.load(Ordering::Relaxed);
        pushed.saturating_sub(self.entries().popped)
    }

    pub(crate) fn pop(&self) -> Option<T> {
        // Relaxed: the number may be outdated.
        let pushed = self.pushed.load(Ordering::Relaxed);
        let (name, value) = {
            let mut entries = self.entries();
            if entries.popped >= pushed {
                return None;
            }
            entries.popped += 1;
            entries.queue.pop_front()?
        };
        self.published[name % CELLS].fetch_add(1, Ordering::Acquire);
        Some(value)
    }
}

/// An event that behaves as event-listener's `Event` does: a notification goes to the listeners
/// that were registered before it, first come first served.
pub(crate) struct Event(model::Arc<EventState>);

struct EventState {
    listeners: model::Mutex<Listeners>,
    notified: model::Condvar,
}

struct Listeners {
    next: usize,
    /// The registered listeners, in order of registration.
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    number: usize,
    notified: bool,
    waker: Option<Waker>,
}

/// The number of listeners to notify: `count` more of them if `additional` is true, otherwise as
/// many as are missing until `count` of them are notified.
pub(crate) struct Notification {
    count: usize,
    additional: bool,
}

pub(crate) trait IntoNotification: Sized {
    fn notification(self) -> Notification;

    fn additional(self) -> Notification {
        Notification { additional: true, ..self.notification() }
    }
}

impl IntoNotification for usize {
    fn notification(self) -> Notification {
        Notification { count: self, additional: false }
    }
}

impl IntoNotification for Notification {
    fn notification(self) -> Notification {
        self
    }
}

impl Event {
    pub(crate) fn new() -> Self {
        let listeners = model::Mutex::new(Listeners { next: 0, waiting: VecDeque::new() });
        Self(model::Arc::new(EventState { listeners, notified: model::Condvar::new() }))
    }

    pub(crate) fn listen(&self) -> EventListener {
        let mut listeners = self.0.listeners.lock().unwrap();
        let number = listeners.next;
        listeners.next += 1;
        listeners.waiting.push_back(Waiter { number, notified: false, waker: None });
        drop(listeners);
        EventListener { event: self.0.clone(), number }
    }

    pub(crate) fn notify(&self, notification: impl IntoNotification) {
        self.0.notify(notification.notification());
    }
}

impl EventState {
    fn notify(&self, notification: Notification) {
        let mut listeners = self.listeners.lock().unwrap();
        let notified_before = listeners.waiting.iter().filter(|waiting| waiting.notified).count();
        let count = if notification.additional {
            notification.count
        } else {
            notification.count.saturating_sub(notified_before)
        };
        let mut wakers = Vec::new();
        for waiting in listeners.waiting.iter_mut().filter(|waiting| !waiting.notified).take(count)
        {
            waiting.notified = true;
            wakers.extend(waiting.waker.take());
        }
        drop(listeners);
        self.notified.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

pub(crate) trait Listener {
    fn wait(self);
}

pub(crate) struct EventListener {
    event: model::Arc<EventState>,
    number: usize,
}

impl EventListener {
    fn find(&self, listeners: &mut Listeners) -> usize {
        let place = listeners.waiting.iter().position(|waiting| waiting.number == self.number);
        place.expect("a listener is registered until it is dropped")
    }
}

impl Listener for EventListener {
    fn wait(self) {
        let mut listeners = self.event.listeners.lock().unwrap();
        loop {
            let place = self.find(&mut listeners);
            if listeners.waiting[place].notified {
                // Consume the notification.
                listeners.waiting[place].notified = false;
                return;
            }
            listeners = self.event.notified.wait(listeners).unwrap();
        }
    }
}

impl Future for EventListener {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut listeners = self.event.listeners.lock().unwrap();
        let place = self.find(&mut listeners);
        let waiting = &mut listeners.waiting[place];
        if waiting.notified {
            waiting.notified = false;
            return Poll::Ready(());
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for EventListener {
    /// Passes an unused notification on to the next listener.
    fn drop(&mut self) {
        let mut listeners = self.event.listeners.lock().unwrap();
        let place = self.find(&mut listeners);
        let left = listeners.waiting.remove(place);
        drop(listeners);
        if left.is_some_and(|left| left.notified) {
            self.event.notify(Notification { count: 1, additional: true });
        }
    }
}

/// Returns the number of this thread in its model, so that threads put index entries into
/// different shards.
#[cfg(deltafifo_loom)]
pub(crate) fn thread_number() -> usize {
    let name = format!("{:?}", super::imp::model::thread::current().id());
    name.bytes()
        .filter(u8::is_ascii_digit)
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

/// Returns 0: all threads put index entries into the same shards.
#[cfg(deltafifo_shuttle)]
pub(crate) fn thread_number() -> usize {
    0
}

/// A hasher with the same result in every run. The last byte of a key chooses its shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct RandomState;

impl BuildHasher for RandomState {
    type Hasher = LastByte;

    fn build_hasher(&self) -> LastByte {
        LastByte { hash: 0xcbf2_9ce4_8422_2325, last: 0 }
    }
}

pub(crate) struct LastByte {
    hash: u64,
    last: u8,
}

impl Hasher for LastByte {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            self.last = byte;
        }
    }

    /// Ignores the address: addresses differ between processes, so hashing them would make a
    /// schedule impossible to replay.
    fn write_usize(&mut self, _address: usize) {}

    fn finish(&self) -> u64 {
        // The bits from which the table takes the shard number.
        self.hash & !(0xff << 40) | u64::from(self.last) << 40
    }
}

thread_local! {
    /// The addresses of the boxes that were freed last. All threads of a model run on one system
    /// thread.
    static FREED: RefCell<VecDeque<Range<usize>>> = const { RefCell::new(VecDeque::new()) };
}

/// The number of addresses to keep. No iteration of a model frees more boxes.
const REMEMBERED: usize = 64;

/// Marks a value as freed, so that [`assert_alive`] detects later accesses. The box is leaked and
/// no destructor runs; `bury` instead releases what the value holds.
pub(crate) fn free<T>(freed: Box<T>, bury: impl FnOnce(&T)) {
    let freed: &T = Box::leak(freed);
    bury(freed);
    let from = std::ptr::from_ref(freed).addr();
    FREED.with_borrow_mut(|all| {
        all.truncate(REMEMBERED - 1);
        all.push_front(from..from + size_of::<T>());
    });
}

/// Asserts that the value has not been freed. Every atomic checks this right after an access,
/// before another thread can run: if it checked before, another thread could free the value
/// between the check and the access.
pub(crate) fn assert_alive<T>(touched: &T) {
    let at = std::ptr::from_ref(touched).addr();
    FREED.with_borrow(|all| {
        assert!(!all.iter().any(|freed| freed.contains(&at)), "what was freed is touched")
    });
}
