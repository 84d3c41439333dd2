//! Calls of user code: functions, wakers, metrics recorders, and destructors of objects and keys.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use deltafifo::locks::assert_none_held;

/// Calls user code.
///
/// # Errors
/// The message of its panic.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    assert_none_held();
    catch_unwind(AssertUnwindSafe(work)).map_err(said)
}

/// Calls user code and ignores its panic. For calls whose failure has no effect on the caller.
pub(crate) fn ignore_panic(call: impl FnOnce()) {
    // There is nobody to report the panic to.
    drop(caught(call));
}

/// Returns the message of a panic.
pub(crate) fn said(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    // The panic's payload is user code, too: its destructor may panic.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
    text.unwrap_or_else(|| "it does not say why".to_owned())
}
