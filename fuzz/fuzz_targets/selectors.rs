//! Parses any text as a label selector. It must be an error, or match and print as a simple parser
//! says. Listers must select accordingly.
#![no_main]

use deltafifo_oracle::selectors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| selectors::run(bytes));
