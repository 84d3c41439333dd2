//! Leases: objects of the API server that one process holds at a time.
//!
//! [`leader_election`](crate::leader_election) elects a leader by a lease.

// * `protocol/`: the protocol of a candidate, without I/O, and an exhaustive search of it for two
//   leaders at a time.
// * `clocks.rs`: the clocks of a process, and the deadline of a holder.
// * `object.rs`: the fields of a `Lease`.
// * `client.rs`: requests for Leases, and their errors.
// * `api.rs`: the requests of a candidate.
// * `hold.rs`: the hold on a lease, as the work under it sees it.
// * `fence.rs`: the client of that work.

mod api;
mod client;
mod clocks;
mod fence;
mod hold;
mod object;
mod protocol;

pub(crate) use api::{LeaseApi, LeaseState, Watched};
pub use client::LeaseError;
pub(crate) use client::{LeaseClient, REPORT_EVERY};
pub(crate) use clocks::Clocks;
#[cfg(test)]
pub(crate) use clocks::explored;
pub(crate) use fence::fenced;
pub use fence::is_lost;
#[cfg(test)]
pub(crate) use hold::set_wall_clock;
pub(crate) use hold::{Clock, Hold, HoldOwner};
pub(crate) use object::{LeaseFields, duration_seconds, with_holder};
pub(crate) use protocol::{Answer, CandidateStep, FormerTerm, Loss, Protocol, Timing};
#[cfg(test)]
pub(crate) use protocol::{CHOSEN_MUTANT, Mutant};
