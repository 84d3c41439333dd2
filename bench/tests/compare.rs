//! Random operations on all engines, each answer compared with the plain model's.

use deltafifo_bench::vectors::{compare, serial};
use deltafifo_oracle::strategy::{ops, setup};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_engines_answer_as_the_model_does(ops in ops(60), setup in setup()) {
        let (config, ops) = serial(&setup, &ops);
        if let Err(difference) = compare(&config, &ops) {
            prop_assert!(false, "{difference}");
        }
    }
}
