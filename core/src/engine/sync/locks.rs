//! `parking_lot`'s locks, with two additions.
//!
//! Debug builds count how many locks the current thread holds, so that they can assert that user
//! code runs while none is held. A claim of a slot counts as a lock if other writers wait for it.
//! User code is whatever the caller gave us: functions, wakers, subscribers to the log, and the
//! `Drop` of objects and keys. It may call back into the queue or the store, so it would deadlock
//! under a lock of ours. Release builds count nothing.
//!
//! An [`UpgradableGuard`] publishes what was read under it, which `parking_lot` 0.12.5 does not
//! always do.
#![allow(clippy::disallowed_types)] // These are the types to use instead.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, fence};

pub(crate) use count::Held;
pub use count::held;
#[cfg(feature = "caches")]
pub(crate) use count::uncounted;

/// Asserts, in debug builds, that the current thread holds no lock. Called before user code runs.
///
/// # Panics
/// In debug builds if the thread holds a lock.
#[inline]
#[track_caller]
pub fn assert_none_held() {
    debug_assert_eq!(
        held(),
        0,
        "user code runs under a lock, and would deadlock if it called back"
    );
}

/// A guard of a `parking_lot` lock. The lock counts as held until the guard is dropped.
pub struct Guard<G> {
    guard: G,
    _held: Held,
}

/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>>;

impl<G> Guard<G> {
    #[inline]
    fn of(guard: G) -> Self {
        Self { guard, _held: Held::new() }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// The guard of [`RwLock::upgradable_read`].
///
/// `parking_lot` 0.12.5 releases such a lock by a Relaxed exchange if another thread sleeps until
/// it gets the lock (`unlock_upgradable_slow`), so the reads under the guard would not happen
/// before the writes of the next exclusive holder. The fence in the `Drop` of this guard restores
/// that.
pub struct UpgradableGuard<'a, T>(Guard<parking_lot::RwLockUpgradableReadGuard<'a, T>>);

impl<T> Deref for UpgradableGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for UpgradableGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release, paired with the Acquire by which `RwLock::write` takes the lock. The field is
        // dropped after this, and with it the lock is released.
        fence(Ordering::Release);
    }
}

/// A `parking_lot::Mutex` that counts as held while it is locked.
#[derive(Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// Blocks until the mutex is locked.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        Guard::of(self.0.lock())
    }

    /// Takes the lock, or returns `None` if a thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().map(Guard::of)
    }

    /// Returns whether a thread holds the lock.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// `parking_lot::Condvar`, for the guards of a [`Mutex`]. The mutex counts as held during a wait.
#[derive(Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// Creates a condition variable that no thread waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Releases the mutex and blocks while `condition` is true of the mutex's value. The condition
    /// is checked with the mutex locked.
    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) {
        self.0.wait_while(&mut guard.guard, condition);
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A `parking_lot::RwLock` that counts as held while it is locked.
#[derive(Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// Blocks until the lock is held shared.
    #[inline]
    pub fn read(&self) -> Guard<parking_lot::RwLockReadGuard<'_, T>> {
        Guard::of(self.0.read())
    }

    /// Takes the lock shared, or returns `None` if a thread holds it exclusively.
    #[inline]
    pub fn try_read(&self) -> Option<Guard<parking_lot::RwLockReadGuard<'_, T>>> {
        self.0.try_read().map(Guard::of)
    }

    /// Returns whether a thread holds the lock, shared or exclusively.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// Blocks until the lock is held shared, and no other thread holds a guard of this function.
    #[inline]
    pub fn upgradable_read(&self) -> UpgradableGuard<'_, T> {
        UpgradableGuard(Guard::of(self.0.upgradable_read()))
    }

    /// Blocks until the lock is held exclusively.
    #[inline]
    pub fn write(&self) -> Guard<parking_lot::RwLockWriteGuard<'_, T>> {
        Guard::of(self.0.write())
    }
}

// The threads of a model share one thread of the system, and so its thread-locals.
#[cfg(any(not(debug_assertions), deltafifo_loom, deltafifo_shuttle))]
mod count {
    /// A lock that the current thread holds. Empty, because release builds and models do not count
    /// locks.
    pub(crate) struct Held;

    impl Held {
        #[inline]
        pub(crate) fn new() -> Self {
            Self
        }
    }

    /// Returns how many locks the current thread holds. Always 0 in release builds and models.
    #[must_use]
    #[inline]
    pub fn held() -> usize {
        0
    }

    /// Runs user code that is documented to run under a lock of ours.
    #[inline]
    #[cfg(feature = "caches")]
    pub(crate) fn uncounted<R>(user_code: impl FnOnce() -> R) -> R {
        user_code()
    }
}

#[cfg(all(debug_assertions, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod count {
    use std::cell::Cell;

    thread_local!(static HELD: Cell<usize> = const { Cell::new(0) });

    /// One lock that the current thread holds.
    pub(crate) struct Held;

    impl Held {
        pub(crate) fn new() -> Self {
            let _ = HELD.try_with(|held| held.set(held.get() + 1));
            Self
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| held.set(held.get() - 1));
        }
    }

    /// Returns how many locks the current thread holds. Always 0 in release builds.
    #[must_use]
    pub fn held() -> usize {
        // The destructor of another thread-local may run after this one's.
        HELD.try_with(Cell::get).unwrap_or(0)
    }

    /// Runs user code that is documented to run under a lock of ours. It may call other queues and
    /// stores, so the locks that are held now are not counted while it runs.
    #[cfg(feature = "caches")]
    pub(crate) fn uncounted<R>(user_code: impl FnOnce() -> R) -> R {
        struct Restore(usize);

        impl Drop for Restore {
            fn drop(&mut self) {
                let _ = HELD.try_with(|held| held.set(self.0));
            }
        }

        let _counted_again = Restore(HELD.try_with(|held| held.replace(0)).unwrap_or(0));
        user_code()
    }
}
