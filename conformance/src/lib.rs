//! Recorded answers of the real client-go `DeltaFIFO`, and the queues on which they are replayed.
#![forbid(unsafe_code)]

pub mod vectors;
