//! Uses keys of any text: each key finds what was stored under it and nothing else, in the queue
//! and in the store.
#![no_main]

use deltafifo_oracle::keys;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keys::run(bytes));
