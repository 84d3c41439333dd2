//! The queue against a plain serial model of it, by property tests: one thread, and a clock that
//! stands still. The metrics tell the same, too.

use deltafifo_informer::workqueue::WorkQueue;
use deltafifo_oracle::strategy::{config, of_bytes};
use deltafifo_oracle::workqueue::{Op, run};
use proptest::prelude::*;

use crate::recorder::Notes;

fn compare(ops: &[Op]) {
    let notes = Notes::default();
    metrics::with_local_recorder(&notes, || {
        run(WorkQueue::builder().name("test"), ops, |model| {
            let told = notes.stand(&["depth", "adds_total", "retries_total"]);
            let depth = u32::try_from(model.depth()).unwrap();
            assert_eq!(told, [depth, model.adds, model.retries].map(f64::from));
        });
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..config() })]

    #[test]
    fn the_queue_does_what_the_model_does(ops in of_bytes(150)) {
        compare(&ops);
    }
}
