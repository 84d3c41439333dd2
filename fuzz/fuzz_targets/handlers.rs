//! Compares the engine with the model, with several handlers at once that end in any order and in
//! every way, over every kind of known objects.
#![no_main]

use deltafifo_oracle::{MODES, read, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((setup, ops)) = read(bytes) else { return };
    for mode in MODES {
        run(mode, setup, 1, &ops);
    }
});
