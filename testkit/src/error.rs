//! What a test can do wrong.

use kube::core::Status;

/// Something that was asked of the server from the test's side cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not serve such objects.
    #[error("the server has no {kind:?} of {api_version:?}: register its resource first")]
    Unregistered {
        /// The kind.
        kind: String,
        /// Group and version.
        api_version: String,
    },
    /// The object is none of its kind, has no name, or is not there.
    #[error("the server refuses: {0}")]
    Refused(Box<Status>),
    /// The object does not turn into JSON.
    #[error("the object cannot be written as JSON, mend its Serialize: {0}")]
    Json(#[from] serde_json::Error),
    /// A generated object could not be found by its name.
    #[error(
        "generated object {number} is called {name:?}: let its name end in {number}, or leave it out"
    )]
    Name {
        /// The object's number.
        number: u64,
        /// What it is called.
        name: String,
    },
}
