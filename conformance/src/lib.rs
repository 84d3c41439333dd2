//! What client-go answers: recorded cases of the real `DeltaFIFO`, and the queues that they are
//! replayed on, among them the classic design in Rust, which the benchmarks compare with.
#![forbid(unsafe_code)]

pub mod mutex;
pub mod vectors;
