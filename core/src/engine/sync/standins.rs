//! The thinnest stand-ins for what the model checkers have no type of. Only compiled in models.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::ops::{Deref, Range};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::imp::model::sync as model;
use super::imp::model::sync::atomic::{AtomicUsize, Ordering};
use super::mutants::mutant;

/// `parking_lot::Mutex` without poisoning.
pub(crate) struct Mutex<T>(model::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(model::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> model::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// `parking_lot::RwLock` without poisoning.
pub(crate) struct RwLock<T> {
    lock: model::RwLock<T>,
    upgradable: model::Mutex<()>,
}

/// A reader of whom there is one at a time. That it could become the writer is not needed.
pub(crate) struct RwLockUpgradableReadGuard<'a, T> {
    // Released first.
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
        let upgradable = mutant!(OffersLetOffersIn => None; Some(self.upgradable.lock().unwrap()));
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

/// `arc_swap::ArcSwap` that hands on no more than the store that a load finds, and shows an older one to who has no order to
/// the newest. All that were ever stored are kept.
pub(crate) struct ArcSwap<T> {
    /// The place of the newest.
    newest: super::imp::AtomicUsize,
    /// Never held across a step.
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

    /// One at a time, as the callers see to.
    pub(crate) fn store(&self, value: model::Arc<T>) {
        let mut stored = self.stored.lock().unwrap();
        stored.push(value);
        let newest = stored.len() - 1;
        drop(stored);
        self.newest.store(newest, Ordering::Release);
    }
}

/// A queue that hands on no more than the real one: a push happens before the pop that finds it, and who has no order to
/// a push may not find it yet. A mutex around a deque would order calls that the real queue does not, and always show the
/// newest state, and so hide what rests on either. Its atomics need no gate: nobody loads what it then stores.
pub(crate) struct SegQueue<T> {
    /// How many were pushed.
    pushed: AtomicUsize,
    /// Made with the queue, since loom calls it a race to look at an atomic that was made without an order to it.
    published: [AtomicUsize; CELLS],
    /// Never held across a step: no thread of a model waits for it.
    entries: std::sync::Mutex<Entries<T>>,
}

/// More entries than a model queues.
const CELLS: usize = 8;

struct Entries<T> {
    /// Names the entries, in no order.
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
        // Release, paired with the Acquire of the pop that finds it.
        self.published[name % CELLS].fetch_add(1, Ordering::Release);
        // Relaxed, since it is to hand nothing on. What follows, up to the next atomic, is one with this step.
        self.pushed.fetch_add(1, Ordering::Relaxed);
        self.entries().queue.push_back((name, value));
    }

    pub(crate) fn len(&self) -> usize {
        // Relaxed: as in `pop`. A step, so before the lock.
        let pushed = self.pushed.load(Ordering::Relaxed);
        pushed.saturating_sub(self.entries().popped)
    }

    pub(crate) fn pop(&self) -> Option<T> {
        // Relaxed: it may be an old number.
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

/// event-listener's: a notification goes to the listeners that were there first, and to nobody who comes later.
pub(crate) struct Event(model::Arc<Line>);

struct Line {
    listeners: model::Mutex<Listeners>,
    notified: model::Condvar,
}

struct Listeners {
    next: usize,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    number: usize,
    notified: bool,
    waker: Option<Waker>,
}

/// How many to notify: so many more, or until so many are.
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
        Self(model::Arc::new(Line { listeners, notified: model::Condvar::new() }))
    }

    pub(crate) fn listen(&self) -> EventListener {
        let mut listeners = self.0.listeners.lock().unwrap();
        let number = listeners.next;
        listeners.next += 1;
        listeners.waiting.push_back(Waiting { number, notified: false, waker: None });
        drop(listeners);
        EventListener { line: self.0.clone(), number }
    }

    pub(crate) fn notify(&self, notification: impl IntoNotification) {
        self.0.notify(notification.notification());
    }
}

impl Line {
    fn notify(&self, notification: Notification) {
        let mut listeners = self.listeners.lock().unwrap();
        let already = listeners.waiting.iter().filter(|waiting| waiting.notified).count();
        let count =
            if notification.additional { notification.count } else { notification.count.saturating_sub(already) };
        let mut wakers = Vec::new();
        for waiting in listeners.waiting.iter_mut().filter(|waiting| !waiting.notified).take(count) {
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
    fn wait_deadline(self, deadline: Instant) -> Option<()>;
}

pub(crate) struct EventListener {
    line: model::Arc<Line>,
    number: usize,
}

impl EventListener {
    fn find(&self, listeners: &mut Listeners) -> usize {
        let place = listeners.waiting.iter().position(|waiting| waiting.number == self.number);
        place.expect("a listener stands in line until it is dropped")
    }
}

impl Listener for EventListener {
    fn wait(self) {
        let mut listeners = self.line.listeners.lock().unwrap();
        loop {
            let place = self.find(&mut listeners);
            if listeners.waiting[place].notified {
                // Its notification is spent.
                listeners.waiting[place].notified = false;
                return;
            }
            listeners = self.line.notified.wait(listeners).unwrap();
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
        let mut listeners = self.line.listeners.lock().unwrap();
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
    /// A notification that was not waited for goes to the next in line.
    fn drop(&mut self) {
        let mut listeners = self.line.listeners.lock().unwrap();
        let place = self.find(&mut listeners);
        let left = listeners.waiting.remove(place);
        drop(listeners);
        if left.is_some_and(|left| left.notified) {
            self.line.notify(Notification { count: 1, additional: true });
        }
    }
}

/// The number of this thread in its model, so that threads put index entries into different shards.
#[cfg(deltafifo_loom)]
pub(crate) fn thread_number() -> usize {
    let name = format!("{:?}", super::imp::model::thread::current().id());
    name.bytes().filter(u8::is_ascii_digit).fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

#[cfg(deltafifo_shuttle)]
pub(crate) fn thread_number() -> usize {
    0
}

/// The same in every run, and the last byte of a key chooses its shard.
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

    /// An address is another one in every process, and would make a schedule one that cannot be tried again.
    fn write_usize(&mut self, _address: usize) {}

    fn finish(&self) -> u64 {
        // Where the table looks for the number of the shard.
        self.hash & !(0xff << 40) | u64::from(self.last) << 40
    }
}

thread_local! {
    /// The last boxes that were freed, by their addresses. All threads of a model are one thread of the system.
    static FREED: RefCell<VecDeque<Range<usize>>> = const { RefCell::new(VecDeque::new()) };
}

/// More than an iteration frees.
const REMEMBERED: usize = 64;

/// Frees, and keeps the memory, so that whoever touches it after that is found out.
pub(crate) fn free<T>(freed: Box<T>, bury: impl FnOnce(&T)) {
    let freed: &T = Box::leak(freed);
    bury(freed);
    let from = std::ptr::from_ref(freed).addr();
    FREED.with_borrow_mut(|all| {
        all.truncate(REMEMBERED - 1);
        all.push_front(from..from + size_of::<T>());
    });
}

/// Whether what lies at this place has not been freed. Every atomic asks it right after an access, before another thread
/// can go on: asked before it, the step in which another thread frees would come between the question and the access.
pub(crate) fn assert_alive<T>(touched: &T) {
    let at = std::ptr::from_ref(touched).addr();
    FREED.with_borrow(|all| assert!(!all.iter().any(|freed| freed.contains(&at)), "what was freed is touched"));
}
