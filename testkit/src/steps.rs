//! A count of the steps of functions that could take quadratic time, for their tests.

#[cfg(test)]
use std::cell::Cell;
use std::hash::{Hash, Hasher};

#[cfg(test)]
thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a step in tests. Does nothing otherwise.
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// A key of a set or map. Each comparison is a step, so a test sees a linear search.
#[derive(Clone, Debug, Eq)]
pub(crate) struct Counted<T>(pub(crate) T);

impl<T: PartialEq> PartialEq for Counted<T> {
    fn eq(&self, other: &Self) -> bool {
        step();
        self.0 == other.0
    }
}

impl<T: Hash> Hash for Counted<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// Does some work. Panics unless it takes between one and ten steps for each of `count` keys. Fewer
/// steps mean that the work no longer counts them.
#[cfg(test)]
pub(crate) fn assert_linear(count: usize, work: impl FnOnce()) {
    let before = STEPS.get();
    work();
    let steps = STEPS.get() - before;
    assert!((count..=10 * count).contains(&steps), "{steps} steps for {count} keys");
}
