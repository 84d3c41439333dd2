//! A deliberate data race, which a sanitizer must report.
#![allow(unsafe_code)] // Safe code has no data races.

use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::thread;

struct Shared(UnsafeCell<u64>);

// SAFETY: unsound on purpose. A sanitizer must report it, and nothing else may run it.
unsafe impl Sync for Shared {}

pub fn run() {
    let shared = Shared(UnsafeCell::new(0));
    // Without the barrier one thread could end before the other begins, and synchronise with it,
    // for example through the allocator.
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
