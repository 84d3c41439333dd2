//! Watch configuration and watch errors of a controller: kube's `watcher`.
//!
//! [`Error`] is kube's type. A controller's stream yields these errors for the informers that the
//! controller owns. It continues, and the failed request is retried with backoff. A shared informer
//! passes its errors to [`on_error`](crate::shared_informer::SharedInformerBuilder::on_error).
//!
//! | what failed | variant of [`Error`] |
//! | --- | --- |
//! | a list, also one without a version | `InitialListFailed` |
//! | a watch that could not be opened, or that the server refused | `WatchStartFailed` |
//! | an `ERROR` event of a watch, for example because its version is too old (410) | `WatchError` |
//! | an open watch, in any other way | `WatchFailed` |
//! | an object that was not decoded, was too large or was refused; the store; user code that panicked | `WatchFailed` |
//!
//! Each has the complete text: the resource, what failed, what that means and what to do. If the
//! server returned a status, the error has this status (`kube::Error::Api` or `WatchError`), and
//! the text is its message. Otherwise the text is a `kube::Error::Service`.

use kube::core::Status;
#[allow(deprecated)]
pub use kube::runtime::watcher::metadata_watcher;
pub use kube::runtime::watcher::{
    Config, DefaultBackoff, Error, Event, ExponentialBackoff, InitialListStrategy, ListSemantic,
    Result, watch_object, watcher,
};

use crate::ReflectorError;
use crate::lister_watcher::RequestError;
use crate::shared_informer::InformerError;

/// Converts an error of the informer of `resource`. Its text ends with `note`.
pub(super) fn error_of(resource: &str, error: &InformerError<'_>, note: &str) -> Error {
    let text = format!("{resource}: {error}{note}");
    match error.reflector() {
        Some(ReflectorError::List(error) | ReflectorError::FinalList(error)) => {
            Error::InitialListFailed(request_error(error, text))
        }
        Some(ReflectorError::Watch(error)) => match error {
            RequestError::ErrorEvent { status, .. } => {
                Error::WatchError(with_message(status, text))
            }
            RequestError::Status { .. }
            | RequestError::Unreachable(_)
            | RequestError::Invalid(_) => Error::WatchStartFailed(request_error(error, text)),
            _ => Error::WatchFailed(request_error(error, text)),
        },
        _ => Error::WatchFailed(kube::Error::Service(text.into())),
    }
}

fn request_error(error: &RequestError, text: String) -> kube::Error {
    match error {
        RequestError::Status { status, .. } => kube::Error::Api(with_message(status, text)),
        _ => kube::Error::Service(text.into()),
    }
}

fn with_message(status: &Status, message: String) -> Box<Status> {
    Box::new(Status { message, ..status.clone() })
}

#[cfg(test)]
mod tests {
    use deltafifo::error_chain;
    use kube::core::Status;

    use super::{Error, error_of};
    use crate::ReflectorError;
    use crate::lister_watcher::RequestError;
    use crate::shared_informer::InformerError;

    fn converted(error: &ReflectorError) -> Error {
        error_of("pods.v1", &InformerError::Reflector(error), "; the note")
    }

    fn status(code: u16, reason: &str) -> Box<Status> {
        Box::new(Status::failure("the server's words", reason).with_code(code))
    }

    fn refusal(code: u16, reason: &str) -> RequestError {
        RequestError::Status { status: status(code, reason), retry_after: None }
    }

    fn event(code: u16, reason: &str) -> RequestError {
        RequestError::ErrorEvent { status: status(code, reason), retry_after: None }
    }

    #[test]
    fn status_of_the_server_is_in_kubes_variant_with_the_whole_text() {
        let errors = [
            (ReflectorError::List(refusal(403, "Forbidden")), "list"),
            (ReflectorError::FinalList(refusal(404, "NotFound")), "list"),
            (ReflectorError::Watch(refusal(500, "InternalError")), "start"),
            (ReflectorError::Watch(refusal(410, "Expired")), "start"),
            (ReflectorError::Watch(event(410, "Expired")), "event"),
            (ReflectorError::Watch(event(500, "InternalError")), "event"),
        ];
        for (error, expected) in errors {
            let kubes = converted(&error);
            let text = error_chain(&kubes);
            let (variant, status) = match &kubes {
                Error::InitialListFailed(kube::Error::Api(status)) => ("list", status),
                Error::WatchStartFailed(kube::Error::Api(status)) => ("start", status),
                Error::WatchError(status) => ("event", status),
                other => panic!("{other}"),
            };
            assert_eq!(variant, expected, "{text}");
            let (code, whole) = (status.code.to_string(), error_chain(&error));
            let parts = ["pods.v1", &code, &status.reason, "the server's words", &whole];
            for part in parts.into_iter().chain(["; the note"]) {
                assert!(text.contains(part), "no {part:?} in {text}");
            }
        }
    }

    type IsExpected<'f> = &'f dyn Fn(&Error) -> bool;

    #[test]
    fn failure_without_a_status_is_in_kubes_variant_with_the_whole_text() {
        let lost = || RequestError::Broken("connection reset".into());
        let undecodable = ReflectorError::Decode {
            key: "shop/web".to_owned(),
            version: "7".to_owned(),
            source: "missing field `spec`".into(),
        };
        let is_list =
            |error: &_| matches!(error, Error::InitialListFailed(kube::Error::Service(_)));
        let is_start =
            |error: &_| matches!(error, Error::WatchStartFailed(kube::Error::Service(_)));
        let is_watch = |error: &_| matches!(error, Error::WatchFailed(kube::Error::Service(_)));
        let errors: [(_, IsExpected<'_>); 5] = [
            (ReflectorError::List(lost()), &is_list),
            (ReflectorError::List(RequestError::without_version("a list")), &is_list),
            (ReflectorError::Watch(RequestError::Unreachable("refused".into())), &is_start),
            (ReflectorError::Watch(lost()), &is_watch),
            (undecodable, &is_watch),
        ];
        for (error, is_expected) in errors {
            let kubes = converted(&error);
            assert!(is_expected(&kubes), "{kubes:?}");
            let text = error_chain(&kubes);
            for part in ["pods.v1: ", &error_chain(&error), "; the note"] {
                assert!(text.contains(part), "no {part:?} in {text}");
            }
        }
    }
}
