//! Random operations on a few keys, with several handlers at once, against client-go's `DeltaFIFO`
//! written plainly.

use deltafifo_oracle::strategy::{config, ops, setup};
use deltafifo_oracle::{MODES, read, run, write};
use proptest::prelude::*;

const MOST: usize = if cfg!(miri) { 15 } else { 60 };

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_answer_equals_the_models(ops in ops(MOST), setup in setup(), threads in 1..3_usize) {
        for mode in MODES {
            run(mode, setup, threads, &ops);
        }
    }

    #[test]
    fn what_is_spelled_in_bytes_is_read_back(ops in ops(MOST), setup in setup()) {
        prop_assert_eq!(read(&write(&setup, &ops)), Some((setup, ops)));
    }
}
