//! Formats an error together with its sources.

use std::error::Error;

/// Returns the message of an error followed by those of its sources, separated by `: `.
///
/// The errors of this project's crates do not repeat their sources in their messages, so a log or
/// a terminal should print this text. Other errors, such as those of kube and hyper, and those that
/// a controller yields, repeat theirs: a source whose message the text already ends with is left
/// out.
///
/// ```
/// use deltafifo::{KeyFunc, NoMeta, error_chain};
///
/// let keys = KeyFunc::custom(NoMeta, |_: &u32| Err("no label `app`".into()));
/// let error = keys.key(&7).unwrap_err();
/// assert_eq!(
///     error_chain(&error),
///     "the custom key function failed, so the object has no key: no label `app`"
/// );
/// ```
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let message = source.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::BoxError;

    use super::error_chain;

    #[derive(Debug, thiserror::Error)]
    #[error("{message}")]
    struct Failure {
        message: &'static str,
        source: Option<BoxError>,
    }

    fn failure(message: &'static str, source: Option<Failure>) -> Failure {
        Failure { message, source: source.map(Into::into) }
    }

    #[test]
    fn source_is_appended_unless_the_text_ends_with_it() {
        let timeout = failure("timeout", None);
        let repeating = failure("connect failed: timeout", Some(timeout));
        let error = failure("list failed", Some(repeating));
        assert_eq!(error_chain(&error), "list failed: connect failed: timeout");
        let named = failure("index color failed for a", Some(failure("color", None)));
        assert_eq!(error_chain(&named), "index color failed for a: color");
    }
}
