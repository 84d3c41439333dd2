//! loom's atomics, with an extra access, the *gate*, before every access. Only compiled in models.
//!
//! loom explores two orders of two accesses only if it sees that they depend on each other, and for
//! that it remembers only the last access of each atomic. If a thread loads an atomic before it
//! stores to it, its load hides the earlier access of another thread, and loom never explores the
//! order in which the store comes first (loom issues 166 and 392, both open; the model
//! `relist::late_stamp` missed the order in which a relist begins first). The gate is a separate
//! atomic on which every access is a read-modify-write, so no access can hide another. The gate is
//! relaxed and synchronises nothing.

use super::imp::model::sync::atomic::{self, Ordering};
use super::standins::assert_alive;

/// An atomic whose accesses are steps of the model's schedule.
pub(crate) struct Gated<A> {
    gate: atomic::AtomicUsize,
    atomic: A,
}

impl<A> Gated<A> {
    fn of(atomic: A) -> Self {
        Self { gate: atomic::AtomicUsize::new(0), atomic }
    }

    fn access<R>(&self, access: impl FnOnce(&A) -> R) -> R {
        // Shuttle does not skip schedules, so it needs no gate.
        if cfg!(deltafifo_loom) {
            self.gate.fetch_add(1, Ordering::Relaxed);
        }
        let result = access(&self.atomic);
        assert_alive(self);
        result
    }
}

macro_rules! gated {
    ($($name:ident $value:ty: $($method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?),*;)*) => {$(
        pub(crate) type $name = Gated<atomic::$name>;

        #[allow(dead_code)] // Not every role needs every access.
        impl Gated<atomic::$name> {
            pub(crate) fn new(value: $value) -> Self {
                Self::of(atomic::$name::new(value))
            }

            $(pub(crate) fn $method(&self, $($argument: $type),*) $(-> $result)? {
                self.access(|atomic| atomic.$method($($argument),*))
            })*
        }
    )*};
}

gated! {
    AtomicBool bool: load(order: Ordering) -> bool, store(value: bool, order: Ordering);
    AtomicU8 u8: load(order: Ordering) -> u8,
        compare_exchange(seen: u8, new: u8, order: Ordering, failed: Ordering) -> Result<u8, u8>;
    AtomicU32 u32: load(order: Ordering) -> u32, store(value: u32, order: Ordering),
        fetch_add(value: u32, order: Ordering) -> u32, fetch_sub(value: u32, order: Ordering) -> u32,
        fetch_max(value: u32, order: Ordering) -> u32,
        fetch_or(value: u32, order: Ordering) -> u32, fetch_and(value: u32, order: Ordering) -> u32,
        compare_exchange(seen: u32, new: u32, order: Ordering, failed: Ordering) -> Result<u32, u32>;
    AtomicU64 u64: load(order: Ordering) -> u64, store(value: u64, order: Ordering);
    AtomicI64 i64: load(order: Ordering) -> i64, fetch_add(value: i64, order: Ordering) -> i64,
        fetch_sub(value: i64, order: Ordering) -> i64;
    AtomicUsize usize: load(order: Ordering) -> usize, store(value: usize, order: Ordering),
        fetch_add(value: usize, order: Ordering) -> usize, fetch_sub(value: usize, order: Ordering) -> usize,
        fetch_or(value: usize, order: Ordering) -> usize, fetch_and(value: usize, order: Ordering) -> usize,
        compare_exchange(seen: usize, new: usize, order: Ordering, failed: Ordering) -> Result<usize, usize>;
}

/// An atomic pointer whose accesses are steps of the model's schedule.
pub(crate) type AtomicPtr<T> = Gated<atomic::AtomicPtr<T>>;

impl<T> Gated<atomic::AtomicPtr<T>> {
    pub(crate) fn new(pointer: *mut T) -> Self {
        Self::of(atomic::AtomicPtr::new(pointer))
    }

    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.access(|atomic| atomic.load(order))
    }

    pub(crate) fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        self.access(|atomic| atomic.swap(pointer, order))
    }

    pub(crate) fn compare_exchange(
        &self,
        seen: *mut T,
        new: *mut T,
        order: Ordering,
        failed: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.access(|atomic| atomic.compare_exchange(seen, new, order, failed))
    }
}
