//! Random operations on a few keys with several concurrent handlers, compared with a plain
//! implementation of client-go's `DeltaFIFO`.

use deltafifo_oracle::strategy::{config, ops, setup};
use deltafifo_oracle::{MODES, read, run, write};
use proptest::prelude::*;

const MOST: usize = if cfg!(miri) { 15 } else { 60 };

proptest! {
    #![proptest_config(config())]

    #[test]
    fn engine_answers_as_the_model(ops in ops(MOST), setup in setup(), threads in 1..3_usize) {
        for mode in MODES {
            run(mode, setup, threads, &ops);
        }
    }

    #[test]
    fn operations_written_to_bytes_are_read_back(ops in ops(MOST), setup in setup()) {
        prop_assert_eq!(read(&write(&setup, &ops)), Some((setup, ops)));
    }
}
