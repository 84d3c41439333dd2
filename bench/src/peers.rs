//! Options that need the feature `peers`.

/// The error for an option whose code is not in this binary.
#[derive(Debug, thiserror::Error)]
#[error("{0} needs the feature `peers`: cargo run --release --features peers --bin relist -- …")]
pub struct NeedsPeers(pub String);
