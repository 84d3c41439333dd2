//! How many bytes are allocated, counted by this test binary's allocator.
//!
//! The process's resident memory would not do: the allocator keeps what is freed, and a leak of
//! one slot a round drowns in that. Bytes asked for and not given back are exact. What comes once
//! and belongs to the process is made to come before the first round is looked at, so whatever a
//! later round leaves behind is a leak.
#![allow(unsafe_code)] // An allocator cannot be written without; it only counts, and passes everything on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;

use deltafifo::{Indexer, KeyFunc, NoMeta};
use parking_lot::{Condvar, Mutex};

struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

fn count(layout: Layout, sign: isize) {
    // Relaxed: read when all other threads have ended. What they did is known by the joins.
    ALLOCATED.fetch_add(sign * layout.size().cast_signed(), Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came. (`realloc` is the default: it
// allocates, copies, frees.)
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the rounds left behind.
#[derive(Default)]
pub struct Watch {
    last: isize,
    /// Round and bytes.
    left: Vec<(u64, isize)>,
}

/// The first round, after which the process has what it makes once.
const WARM: u64 = 0;
/// More threads than a round has.
const WAITING: usize = 32;

/// Makes `parking_lot`'s table of waiting threads as large as it will be, and arc-swap's list of
/// threads that load: they grow with the most threads that ever did so at once, and are kept.
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
    /// After each round, when its threads have ended.
    pub fn look(&mut self, round: u64) {
        // Room for the note itself, so that it does not count.
        self.left.reserve(1);
        let now = ALLOCATED.load(Ordering::Relaxed);
        if round > WARM && now != self.last {
            self.left.push((round, now - self.last));
        }
        self.last = now;
    }

    pub fn assert_that_it_is_back(&self) {
        assert!(self.left.is_empty(), "rounds and the bytes they left behind: {:?}", self.left);
    }
}
