//! Counts the allocated bytes, in the allocator of this test program.
//!
//! Resident memory cannot be used as the measure: the allocator keeps freed memory, which hides a
//! leak of one slot per round. The count of allocated and not freed bytes is exact. Allocations
//! that happen once per process are forced before the first round, so bytes that a later round
//! leaves allocated are a leak.
#![allow(unsafe_code)] // An allocator needs it. This one counts and forwards.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;

use deltafifo::{Indexer, KeyFunc, NoMeta};
use parking_lot::{Condvar, Mutex};

struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

fn count(layout: Layout, sign: isize) {
    // Relaxed: it is read after all other threads have been joined.
    ALLOCATED.fetch_add(sign * layout.size().cast_signed(), Ordering::Relaxed);
}

// SAFETY: every call is forwarded to the system allocator unchanged. (`realloc` is the default: it
// allocates, copies, frees.)
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of bytes that are allocated now.
pub fn allocated() -> isize {
    // Relaxed: other threads that count have been joined.
    ALLOCATED.load(Ordering::Relaxed)
}

/// A record of the bytes that rounds leaked.
#[derive(Default)]
pub struct Watch {
    last: isize,
    /// The rounds that leaked, each with its bytes.
    leaked: Vec<(u64, isize)>,
}

/// The number of the round after which all one-time allocations of the process have been made.
const WARM: u64 = 0;
/// The number of threads that wait at the same time in [`warm`]: more than a round has.
const WAITING: usize = 32;

/// Grows `parking_lot`'s table of waiting threads and arc-swap's list of loading threads to their
/// final size. Both grow with the largest number of concurrent threads, and never shrink.
pub fn warm() {
    let (waiting, all) = (Mutex::new(0), Condvar::new());
    let store =
        Indexer::builder(KeyFunc::custom(NoMeta, |(): &()| Ok(String::new()))).build().unwrap();
    thread::scope(|scope| {
        for _ in 0..WAITING {
            scope.spawn(|| {
                assert!(store.by_index("no such index", "").is_err());
                let mut waiting = waiting.lock();
                *waiting += 1;
                all.notify_all();
                all.wait_while(&mut waiting, |waiting| *waiting < WAITING);
            });
        }
    });
}

impl Watch {
    /// Records the allocated bytes after a round, when its threads have ended.
    pub fn record(&mut self, round: u64) {
        // Reserves room first, so that the record itself does not count.
        self.leaked.reserve(1);
        let now = allocated();
        if round > WARM && now != self.last {
            self.leaked.push((round, now - self.last));
        }
        self.last = now;
    }

    pub fn assert_that_it_is_back(&self) {
        assert!(self.leaked.is_empty(), "rounds and the bytes that they leaked: {:?}", self.leaked);
    }
}
