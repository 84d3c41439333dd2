//! Compares the engine, and client-go's design with one mutex (`deltafifo_classic`), with the
//! model, for operations of one consumer. Runs both over their own stores, over a store behind the
//! trait `KnownObjects`, and without known objects.
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
