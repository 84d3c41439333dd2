//! Formats errors with their causes.

use std::error::Error;

/// Returns the message of an error, followed by the messages of its causes. A cause that a message
/// already contains is left out: many errors of other crates print their causes.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        next = cause.source();
    }
    text
}
