//! Utilities that know nothing of Kubernetes.

pub(crate) mod catching;
pub(crate) mod coop;
pub(crate) mod dns;
pub(crate) mod in_flight;
#[cfg(feature = "leader-election")]
pub(crate) mod mutant;
pub(crate) mod random;
#[cfg(deltafifo_shuttle)]
pub(crate) mod schedule_locks;
#[cfg(all(test, feature = "leader-election"))]
pub(crate) mod search;
#[cfg(all(test, feature = "leader-election"))]
pub(crate) mod seeds;
pub(crate) mod slab;
pub(crate) mod sleep;
pub(crate) mod task;
pub(crate) mod time;
