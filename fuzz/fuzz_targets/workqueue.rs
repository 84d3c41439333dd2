//! The work queue beside a plain one, on a clock that stands still, with getters that sleep and are dropped.
#![no_main]

use deltafifo_informer::workqueue::WorkQueue;
use deltafifo_oracle::of_bytes;
use deltafifo_oracle::workqueue::run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| run(WorkQueue::builder(), &of_bytes(bytes), |_| ()));
