//! Property tests of the queue against a plain serial model, on one thread with a paused clock.
//! The metrics are compared as well.

use deltafifo_informer::workqueue::WorkQueue;
use deltafifo_oracle::strategy::{config, of_bytes};
use deltafifo_oracle::workqueue::{Op, run};
use proptest::prelude::*;

use crate::recorder::Notes;

fn compare(ops: &[Op]) {
    let notes = Notes::default();
    metrics::with_local_recorder(&notes, || {
        run(WorkQueue::builder().name("test"), ops, |model| {
            let received = notes.current(&["depth", "adds_total", "retries_total"]);
            let depth = u32::try_from(model.depth()).unwrap();
            assert_eq!(received, [depth, model.adds, model.retries].map(f64::from));
        });
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..config() })]

    #[test]
    fn queue_behaves_as_the_model(ops in of_bytes(150)) {
        compare(&ops);
    }
}
