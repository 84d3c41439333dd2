//! Locks that count how many of them the current thread holds, so that debug builds can assert that
//! user code runs while none is held. In release builds they are `parking_lot`'s and nothing is counted.
//!
//! User code is whatever the caller gave us: functions, wakers, subscribers to the log, and the `Drop` of
//! objects and keys. It may call back into the queue or the store, so it would deadlock under a lock of ours.

#[cfg(debug_assertions)]
pub use counted::{Mutex, MutexGuard, RwLock, held};
#[cfg(not(debug_assertions))]
pub use parking_lot::{Mutex, MutexGuard, RwLock};

/// How many locks the current thread holds. Always 0 in release builds.
#[cfg(not(debug_assertions))]
#[must_use]
#[inline]
pub fn held() -> usize {
    0
}

/// Asserts, in debug builds, that the current thread holds no lock. Called before user code runs.
///
/// # Panics
/// In debug builds if the thread holds a lock.
#[inline]
#[track_caller]
pub fn assert_none_held() {
    debug_assert_eq!(held(), 0, "user code runs under a lock, and would deadlock if it called back");
}

/// Runs user code that is documented to run under a lock of ours. It may call other queues and stores, whose
/// user code finds the locks not counted that are held here.
#[inline]
pub(crate) fn uncounted<R>(user_code: impl FnOnce() -> R) -> R {
    #[cfg(debug_assertions)]
    let _counted_again = counted::suspend();
    user_code()
}

#[cfg(debug_assertions)]
mod counted {
    use std::cell::Cell;
    use std::ops::{Deref, DerefMut};

    thread_local!(static HELD: Cell<usize> = const { Cell::new(0) });

    /// How many locks the current thread holds. Always 0 in release builds.
    #[must_use]
    pub fn held() -> usize {
        // A destructor of another thread-local may come after this one's.
        HELD.try_with(Cell::get).unwrap_or(0)
    }

    /// Sets the count to 0 until the result is dropped.
    pub(super) fn suspend() -> impl Drop {
        struct Restore(usize);

        impl Drop for Restore {
            fn drop(&mut self) {
                let _ = HELD.try_with(|held| held.set(self.0));
            }
        }

        Restore(HELD.try_with(|held| held.replace(0)).unwrap_or(0))
    }

    /// One lock that the current thread holds.
    struct Held;

    impl Held {
        fn new() -> Self {
            let _ = HELD.try_with(|held| held.set(held.get() + 1));
            Self
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| held.set(held.get() - 1));
        }
    }

    /// A guard of `parking_lot`'s, counted until it is dropped.
    pub struct Guard<G> {
        guard: G,
        _held: Held,
    }

    /// The guard of a [`Mutex`].
    pub type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>>;

    impl<G> Guard<G> {
        fn of(guard: G) -> Self {
            Self { guard, _held: Held::new() }
        }
    }

    impl<G: Deref> Deref for Guard<G> {
        type Target = G::Target;

        fn deref(&self) -> &G::Target {
            &self.guard
        }
    }

    impl<G: DerefMut> DerefMut for Guard<G> {
        fn deref_mut(&mut self) -> &mut G::Target {
            &mut self.guard
        }
    }

    /// `parking_lot::Mutex`, counted.
    #[derive(Default)]
    pub struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        /// Creates an unlocked mutex.
        pub const fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        /// Blocks until the mutex is locked.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            Guard::of(self.0.lock())
        }
    }

    /// `parking_lot::RwLock`, counted.
    #[derive(Default)]
    pub struct RwLock<T>(parking_lot::RwLock<T>);

    impl<T> RwLock<T> {
        /// Creates an unlocked lock.
        pub const fn new(value: T) -> Self {
            Self(parking_lot::RwLock::new(value))
        }

        /// Blocks until the lock is held shared.
        pub fn read(&self) -> Guard<parking_lot::RwLockReadGuard<'_, T>> {
            Guard::of(self.0.read())
        }

        /// Locks it shared if nobody holds it exclusively.
        pub fn try_read(&self) -> Option<Guard<parking_lot::RwLockReadGuard<'_, T>>> {
            self.0.try_read().map(Guard::of)
        }

        /// Blocks until the lock is held shared, and against others that call this.
        pub fn upgradable_read(&self) -> Guard<parking_lot::RwLockUpgradableReadGuard<'_, T>> {
            Guard::of(self.0.upgradable_read())
        }

        /// Blocks until the lock is held exclusively.
        pub fn write(&self) -> Guard<parking_lot::RwLockWriteGuard<'_, T>> {
            Guard::of(self.0.write())
        }
    }
}
