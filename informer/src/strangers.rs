//! Calls of what is not ours: functions, wakers and metrics recorders of users, the drop of their
//! objects and keys.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use deltafifo::locks::assert_none_held;

/// Runs a stranger's code; an error is what its panic said.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    assert_none_held();
    catch_unwind(AssertUnwindSafe(work)).map_err(said)
}

/// Runs a stranger's code, which must not end what it is told of.
pub(crate) fn unharmed(told: impl FnOnce()) {
    // Nobody could be told what it said.
    drop(caught(told));
}

/// What a panic said.
pub(crate) fn said(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    // What it brought may panic in its turn when it is dropped.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
    text.unwrap_or_else(|| "it does not say why".to_owned())
}
