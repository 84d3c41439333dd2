//! Work with a permit, in a sharded controller, or without one.

use futures_util::FutureExt;
use futures_util::future::Either;

#[cfg(feature = "leader-election")]
pub(super) use super::fill::Fills;
#[cfg(feature = "leader-election")]
pub(super) use super::sharded::{Sharding, is_in_shards};
#[cfg(not(feature = "leader-election"))]
pub(super) use super::unsharded::{
    Announcement, Fills, Participation, PausedPermit, Permit, Sharding, is_in_shards,
};
#[cfg(feature = "leader-election")]
pub(super) use crate::sharding::{Announcement, Participation, PausedPermit, Permit};

/// Returns the permit for work on an object of the shard, or `Some(None)` in a controller that is
/// not sharded, or `None` if the work must not start.
#[allow(clippy::option_option)]
pub(super) fn admit(sharding: Option<&Sharding>, shard: Option<u8>) -> Option<Option<Permit>> {
    match sharding.zip(shard) {
        Some((sharding, shard)) => sharding.admit(shard).map(Some),
        None => Some(None),
    }
}

/// Continues paused work like [`admit`], if it has a permit.
#[allow(clippy::option_option)]
pub(super) fn resume(paused: Option<PausedPermit>) -> Option<Option<Permit>> {
    match paused {
        Some(paused) => paused.resume().map(Some),
        None => Some(None),
    }
}

/// Calls a function, with the permit as the current one if there is one.
pub(super) fn in_permit<T>(permit: Option<&Permit>, call: impl FnOnce() -> T) -> T {
    match permit {
        Some(permit) => permit.enter(call),
        None => call(),
    }
}

/// Runs `work`, and drops it when the permit is lost. Returns `None` in that case.
pub(super) fn with_permit<T: Send + 'static, W: Future<Output = T> + Send + 'static>(
    permit: Option<Permit>,
    work: W,
) -> impl Future<Output = Option<T>> + Send + use<T, W> {
    match permit {
        // Boxed, so that the future of a controller without shards is as small as its work.
        Some(permit) => Either::Left(permit.run(work).boxed()),
        None => Either::Right(work.map(Some)),
    }
}
