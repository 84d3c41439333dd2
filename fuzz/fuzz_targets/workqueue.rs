//! Compares the work queue with a simple model, on a stopped clock, with getters that sleep and
//! that are dropped.
#![no_main]

use deltafifo_informer::workqueue::WorkQueue;
use deltafifo_oracle::of_bytes;
use deltafifo_oracle::workqueue::run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| run(WorkQueue::builder(), &of_bytes(bytes), |_| ()));
