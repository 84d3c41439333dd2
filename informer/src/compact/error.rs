//! The reasons why an object cannot be packed or decoded.

use deltafifo::BoxError;

use super::codec::CodecError;
use crate::wire::{WireError, check};

/// The reason why a received object was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The text is not a JSON object.
    #[error("the object is not stored: its text is not a JSON object")]
    Json(#[source] BoxError),
    /// The text is not UTF-8.
    #[error("the object is not stored: its text is not UTF-8")]
    Utf8(#[from] std::str::Utf8Error),
    /// The metadata of the JSON object is ambiguous or has a wrong type.
    #[error("the object is not stored: its metadata cannot be read")]
    Metadata(#[source] serde_json::Error),
    /// The object does not decode into its type, which is checked if
    /// [`validate`](super::CompactorBuilder::validate) is set.
    #[error("the object is not stored: it does not decode into its type")]
    Decode(#[source] serde_json::Error),
    /// The decoder of the object's type panicked.
    #[error("the object is not stored: its decoder panicked: {0}")]
    Panicked(String),
}

impl PackError {
    /// Returns the error for `text`, in which the metadata could not be read because of `error`.
    pub(super) fn unreadable(text: &str, error: serde_json::Error) -> Self {
        if text.starts_with('{') && check(text.as_bytes()).is_ok() {
            Self::Metadata(error)
        } else {
            Self::Json(error.into())
        }
    }
}

impl From<WireError> for PackError {
    fn from(error: WireError) -> Self {
        Self::Json(error.into())
    }
}

/// The error of a stored object that cannot be decoded. The object stays stored.
#[derive(Debug, thiserror::Error)]
#[error("the stored object {key} cannot be decoded; it stays stored until it is replaced")]
pub struct DecodeError {
    key: String,
    source: DecodeFailure,
}

/// The cause of a [`DecodeError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeFailure {
    /// The text does not decode into the object's type.
    #[error("its text does not decode into its type")]
    Json(#[from] serde_json::Error),
    /// The stored bytes do not unpack: they are damaged, or memory is exhausted.
    #[error("its bytes do not unpack: {0}")]
    Unpack(String),
    /// The decoder of the object's type panicked.
    #[error("its decoder panicked: {0}")]
    Panicked(String),
}

/// The error of [`Compact::field`](super::Compact::field): the objects do not keep the field beside
/// the compressed JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "field {0:?} of a compact object cannot be read, because it was not named: call \
     `SharedInformerBuilder::field` or `CompactorBuilder::field` with this pointer"
)]
pub struct UnnamedField(pub(super) String);

impl DecodeError {
    pub(super) fn new(key: String, source: impl Into<DecodeFailure>) -> Self {
        Self { key, source: source.into() }
    }

    /// Returns the key of the object, `namespace/name` or `name`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the cause of the error.
    #[must_use]
    pub fn failure(&self) -> &DecodeFailure {
        &self.source
    }
}

impl From<CodecError> for DecodeFailure {
    fn from(error: CodecError) -> Self {
        Self::Unpack(error.to_string())
    }
}
