//! Any text as a label selector: an error, or it means what a plain reading of it says, in what it matches and in how it
//! is written; and listers select by it.
#![no_main]

use deltafifo_oracle::selectors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| selectors::run(bytes));
