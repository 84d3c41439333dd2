//! A count of the steps of functions that could take quadratic time, for their tests.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a step in tests, such as a comparison or a search. Does nothing otherwise.
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// Returns the number of steps that some work takes on this thread.
#[cfg(test)]
pub(crate) fn steps_of(work: impl FnOnce()) -> usize {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
