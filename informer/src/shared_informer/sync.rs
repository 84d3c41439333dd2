//! Where the protocol's locks come from: the one place for a model to put its own.

pub(super) use parking_lot::Mutex;
pub(super) use std::sync::Arc;
