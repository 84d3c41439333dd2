//! Dropping user objects and functions, whose destructors are user code and may panic. A second panic that comes out of a drop while the
//! first one unwinds ends the process, so objects that end together are dropped one by one.

use std::ops::{Deref, DerefMut};

use crate::error::FirstPanic;

/// Drops each of `items`, whatever the drop of another does. The first panic goes on, unless one is under way already.
pub(crate) fn release<I>(items: impl IntoIterator<Item = I>) {
    let mut items = items.into_iter();
    let mut panic = FirstPanic::default();
    let mut rest = true;
    while rest {
        // One call for all, as long as none panics.
        panic.of(|| {
            for item in items.by_ref() {
                drop(item);
            }
            rest = false;
        });
    }
    panic.go_on();
}

/// A collection of user objects, each of one drop that may panic: they are [released](release) one by one.
pub(crate) struct OneByOne<C: IntoIterator + Default>(pub(crate) C);

impl<C: IntoIterator + Default> OneByOne<C> {
    /// The collection itself, for what does not end here.
    pub(crate) fn take(&mut self) -> C {
        std::mem::take(&mut self.0)
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

/// The rest of an iterator over user objects: they are [released](release) one by one.
pub(crate) struct Rest<I: Iterator>(pub(crate) I);

impl<I: Iterator> Drop for Rest<I> {
    fn drop(&mut self) {
        release(self.0.by_ref());
    }
}

/// A pointer to user code, such as a function. Its destructor may panic: if that happens while another
/// panic unwinds, it is discarded.
pub(crate) struct UserCode<P>(OneByOne<Option<P>>);

impl<P> UserCode<P> {
    pub(crate) fn new(pointer: P) -> Self {
        Self(OneByOne(Some(pointer)))
    }
}

impl<P: Deref> Deref for UserCode<P> {
    type Target = P::Target;

    #[inline]
    fn deref(&self) -> &P::Target {
        self.0.as_deref().unwrap_or_else(|| unreachable!("it is taken out by the drop only"))
    }
}
