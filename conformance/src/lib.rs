//! What client-go answers: recorded cases of the real `DeltaFIFO`, and the queues that they are
//! replayed on.
#![forbid(unsafe_code)]

pub mod vectors;
