//! Compares the queues `Fifo` and `Heap`, the expiration cache and the mutation cache with simple
//! models.
#![no_main]

use deltafifo_oracle::caches;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| caches::run(bytes));
