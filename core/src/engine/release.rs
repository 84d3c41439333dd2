//! Drops user objects and functions, whose destructors are user code and may panic. If a destructor
//! panics while another panic unwinds, the process aborts. So each object is dropped by itself,
//! also if many are dropped together.

use std::ops::{Deref, DerefMut};

use crate::engine::sync::assert_none_held;
use crate::panics::{FirstPanic, ignore_panic};

/// Drops each item, even if the drop of another one panics. Resumes the first panic at the end,
/// unless the thread is already panicking. A debug build fails if a lock is held.
#[inline]
pub(crate) fn release<I>(items: impl IntoIterator<Item = I>) {
    drop_each(items, || {
        // While a panic unwinds, a guard may be dropped after the items.
        if cfg!(debug_assertions) && !std::thread::panicking() {
            assert_none_held();
        }
    });
}

/// Drops each item as [`release`] does, but calls `check` before each drop.
#[inline]
pub(crate) fn drop_each<I>(items: impl IntoIterator<Item = I>, check: impl Fn()) {
    let mut items = items.into_iter();
    let mut panic = FirstPanic::default();
    let mut rest = true;
    while rest {
        // One call covers all items up to the next panic.
        panic.catch(|| {
            for item in items.by_ref() {
                check();
                drop(item);
            }
            rest = false;
        });
    }
    panic.resume();
}

/// A collection of user objects that are [released](release) one by one when it is dropped.
pub(crate) struct OneByOne<C: IntoIterator + Default>(pub(crate) C);

impl<C: IntoIterator + Default> OneByOne<C> {
    /// Takes the collection out, so that the drop of this value does not drop its objects.
    pub(crate) fn take(&mut self) -> C {
        std::mem::take(&mut self.0)
    }
}

impl<V> OneByOne<Option<V>> {
    /// Stores `value`, and drops the former value. A panic of its destructor is ignored, so that
    /// the caller continues. `value` is an option, so that a caller on a hot path can pass its own
    /// option without taking the value out.
    #[cold]
    #[inline(never)]
    pub(crate) fn supersede(&mut self, value: Option<V>) {
        let former = std::mem::replace(&mut self.0, value);
        ignore_panic(|| drop(former));
    }
}

impl<C: IntoIterator + Default> Default for OneByOne<C> {
    fn default() -> Self {
        Self(C::default())
    }
}

impl<C: IntoIterator + Default> Deref for OneByOne<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C: IntoIterator + Default> DerefMut for OneByOne<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.0
    }
}

impl<C: IntoIterator + Default> Drop for OneByOne<C> {
    fn drop(&mut self) {
        release(self.take());
    }
}

/// An iterator over user objects whose remaining items are [released](release) one by one when it
/// is dropped.
///
/// The bound `ExactSizeIterator` is a reminder that this is only for iterators of a collection. An
/// iterator of the caller may be endless, wait for another thread or panic, so it is wrapped in a
/// [`OneByOne`] instead, which drops it together with its remaining items.
pub(crate) struct Rest<I: ExactSizeIterator>(pub(crate) I);

impl<I: ExactSizeIterator> Drop for Rest<I> {
    fn drop(&mut self) {
        release(self.0.by_ref());
    }
}

/// A value of the caller with a destructor: a function, an accessor, or an object that is held
/// while other user code runs. Its destructor may panic; if that happens while another panic
/// unwinds, the second panic is discarded.
pub(crate) struct UserCode<V>(OneByOne<Option<V>>);

impl<V> UserCode<V> {
    #[inline]
    pub(crate) fn new(value: V) -> Self {
        Self(OneByOne(Some(value)))
    }

    /// Takes the value out, so that it is not dropped here.
    #[inline]
    pub(crate) fn into_inner(mut self) -> V {
        let value = self.0.0.take();
        // Nothing is left to drop, and the drop of a guard takes about 30 instructions.
        std::mem::forget(self);
        value.unwrap_or_else(|| unreachable!("{TAKEN_LAST}"))
    }
}

const TAKEN_LAST: &str = "only into_inner and the drop take the value, and both consume the guard";

impl<V> Deref for UserCode<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        self.0.as_ref().unwrap_or_else(|| unreachable!("{TAKEN_LAST}"))
    }
}
