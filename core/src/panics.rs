//! Contains panics of user code: functions, wakers, subscribers to the log, recorders of metrics,
//! and the destructors of objects and keys.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::engine::sync::assert_none_held;
use crate::error::BoxError;

/// Calls user code.
///
/// # Errors
/// The message of the panic, if the user code panicked.
pub fn caught<R>(user_code: impl FnOnce() -> R) -> Result<R, String> {
    assert_none_held();
    catch_unwind(AssertUnwindSafe(user_code)).map_err(panic_message)
}

/// Calls user code whose panic must not affect the caller. Returns `None` if it panicked.
#[inline]
pub fn ignore_panic<R>(user_code: impl FnOnce() -> R) -> Option<R> {
    assert_none_held();
    catch_unwind(AssertUnwindSafe(user_code)).map_err(discard).ok()
}

/// Calls a user function. A panic is converted to an error, so that it aborts only this call's
/// operation.
pub(crate) fn fallible<R>(function: impl FnOnce() -> Result<R, BoxError>) -> Result<R, BoxError> {
    caught(function).unwrap_or_else(|message| Err(format!("panicked: {message}").into()))
}

/// Returns the value of the result of a user function whose error does not matter. A panic of the
/// error's destructor is ignored.
pub(crate) fn ignore_error<R, E>(result: Result<R, E>) -> Option<R> {
    result.map_err(|error| ignore_panic(|| drop(error))).ok()
}

/// Returns the message of a panic and drops its payload.
#[must_use]
pub fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    discard(panic);
    message
}

/// Drops the payload of a panic. A panic of that drop is ignored.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}

/// The first panic of several calls to user code, kept so that all of the calls are made.
#[derive(Default)]
pub struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    /// Makes one of the calls. Returns `None` if it panicked.
    pub fn call<R>(&mut self, user_code: impl FnOnce() -> R) -> Option<R> {
        assert_none_held();
        self.catch(user_code)
    }

    /// Makes a call that may hold locks, for example one that runs user code deep inside. Returns
    /// `None` if it panicked.
    #[inline]
    pub(crate) fn catch<R>(&mut self, call: impl FnOnce() -> R) -> Option<R> {
        catch_unwind(AssertUnwindSafe(call)).map_err(|panic| self.keep(panic)).ok()
    }

    /// Keeps the panic of a call, or discards it if an earlier one is kept.
    pub fn keep(&mut self, panic: Box<dyn Any + Send>) {
        match self.0 {
            None => self.0 = Some(panic),
            Some(_) => discard(panic),
        }
    }

    /// Resumes the first panic, unless the thread is already panicking: a second panic would
    /// abort the process.
    ///
    /// # Panics
    /// With the first panic.
    pub fn resume(self) {
        match self.0 {
            Some(panic) if std::thread::panicking() => discard(panic),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
    }
}
