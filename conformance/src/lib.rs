//! The recorded answers of the real client-go `DeltaFIFO`, and their replay on the queues of this
//! project.
#![forbid(unsafe_code)]

pub mod vectors;
