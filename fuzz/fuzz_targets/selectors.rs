//! Parses arbitrary texts as label selectors. The selector must accept exactly the texts that a
//! simple parser accepts, match the objects that this parser matches, and print an equivalent
//! text. Listers must select the objects that match.
#![no_main]

use deltafifo_oracle::selectors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| selectors::run(bytes));
