//! Compares the indexer, alone and fused with a queue, with a map that is searched from end to
//! end.
#![no_main]

use deltafifo_oracle::indexed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| indexed::run(bytes));
