//! Compares the engine and the mutex baseline with the model, for operations of one consumer,
//! over their own stores and over the `KnownObjects` trait.
#![no_main]

use deltafifo_conformance::vectors::{compare, serial};
use deltafifo_oracle::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((setup, ops)) = read(bytes) else { return };
    let (config, ops) = serial(&setup, &ops);
    if let Err(difference) = compare(&config, &ops) {
        panic!("{difference}");
    }
});
