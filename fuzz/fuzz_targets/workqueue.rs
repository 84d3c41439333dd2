//! Compares the work queue with a simple model, on a paused clock. Some getters sleep, and some
//! are dropped.
#![no_main]

use deltafifo_informer::workqueue::WorkQueue;
use deltafifo_oracle::of_bytes;
use deltafifo_oracle::workqueue::run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| run(WorkQueue::builder(), &of_bytes(bytes), |_| ()));
