//! Parses any text as a label selector: it is an error, or it matches and prints as a simple
//! parser says. Listers select by it, too.
#![no_main]

use deltafifo_oracle::selectors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| selectors::run(bytes));
