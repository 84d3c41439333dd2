//! Reports of the errors of a reflector, and of a feed from a kube watcher.

use super::ReflectorOnError;
use super::error::{ReflectorError, caught};
use super::status::Status;
use crate::error_chain;

/// Records an error in the status, and calls the error handler.
pub(super) fn report(error: &ReflectorError, status: &Status, on_error: &ReflectorOnError) {
    // Error handlers and the texts of errors, which may come from the decoder of an object, are
    // user code. Their panics must not end the reflector or the feed.
    let message = caught(|| error_chain(error)).ok();
    if let Some(message) = message.clone() {
        status.failed(message);
    }
    if caught(|| on_error(error)).is_err() {
        tracing::error!(error = message, "error handler panicked; lists and watches continue");
    }
}
