//! A data race, made on purpose.
#![allow(unsafe_code)] // There is none without.

use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::thread;

struct Shared(UnsafeCell<u64>);

// SAFETY: it is not; that is what it is for. A sanitizer must say so, and nothing else may run
// this.
unsafe impl Sync for Shared {}

pub fn run() {
    let shared = Shared(UnsafeCell::new(0));
    // One that has ended before the other begins may have handed it on, by way of the allocator
    // for one.
    let both = Barrier::new(2);
    let count = |shared: &Shared| {
        both.wait();
        for _ in 0..1_000 {
            // SAFETY: none, as above.
            unsafe { *std::hint::black_box(shared.0.get()) += 1 };
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| count(&shared));
        scope.spawn(|| count(&shared));
    });
}
