//! Code that is called on the way and is not the queue's: wakers, metrics recorders, the drop of a key.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a stranger's code, which must not end what it is told of.
pub(crate) fn unharmed(told: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(told)) {
        // What it brought may panic in its turn when it is dropped.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(another);
        }
    }
}
