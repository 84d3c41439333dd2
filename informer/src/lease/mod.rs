//! Leases: objects of the API server that one process holds at a time.
//!
//! * `protocol/`: the protocol of a candidate, without I/O, and an exhaustive search of it for two
//!   leaders at a time.
//! * `clocks.rs`: the clocks of a process, and the deadline of a holder.

mod clocks;
mod protocol;
