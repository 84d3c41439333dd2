//! The errors of the methods that tests call.

use kube::core::Status;

/// The error of a call that the server cannot carry out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not serve objects of this kind.
    #[error("kind {kind:?} of {api_version:?} is not served; register its resource first")]
    Unregistered {
        /// The kind.
        kind: String,
        /// Group and version.
        api_version: String,
    },
    /// The object is not valid for its kind, has no name, or does not exist.
    #[error("the server refused the call: {0}")]
    Refused(Box<Status>),
    /// The object cannot be serialised as JSON.
    #[error("the object cannot be serialised as JSON; correct its `Serialize` implementation")]
    Json(#[from] serde_json::Error),
    /// The server could not find a generated object by its name, which must end in the object's
    /// number.
    #[error(
        "generated object {number} cannot be found by its name {name:?}; end the name in {number}, or leave it out"
    )]
    Name {
        /// The object's number.
        number: u64,
        /// The name that the object has.
        name: String,
    },
}
