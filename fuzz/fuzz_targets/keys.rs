//! Uses arbitrary texts as keys. Each key must find exactly the object that was stored under it,
//! in the queue and in the store.
#![no_main]

use deltafifo_oracle::keys;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keys::run(bytes));
