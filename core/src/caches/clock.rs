//! The clocks for expiry, which tests can replace.

use std::time::Instant;

use crate::engine::release::UserCode;

pub(super) type Clock = UserCode<Box<dyn Fn() -> Instant + Send + Sync>>;

/// Returns the system clock.
pub(super) fn system() -> Clock {
    UserCode::new(Box::new(Instant::now))
}
