//! Memory made ready before the clocks.
//!
//! Many a virtual machine gives its free memory back to its host within seconds, and who touches it again waits for the
//! host: 2.3 ms a megabyte where this was written, against 0.1 ms when the host still has it. A million objects in a fresh
//! process would measure that. So each process touches as much memory as its engine will take right before every clock,
//! and gives it back; and the tool does the same for a whole process before it starts one.

use memmap2::{Advice, MmapMut};

/// Bytes an object: the largest growth of an engine written in Rust in any list workload. (The peer in Go has its own.)
const GROWTH: usize = 350;
/// Bytes an object of a whole process at its peak: its lists, and an engine.
const PROCESS: usize = 2_400;
const PAGE: usize = 4096;

/// Makes ready what an engine is about to take for `objects` objects. Belongs right before the clock.
pub fn before_clock(objects: usize) {
    touch(objects * GROWTH, || true);
}

/// Makes ready what a process with `objects` objects is about to take, as far as `free` bytes allow, and as long
/// as `go_on` says so.
pub fn before_process(objects: usize, free: u64, go_on: impl Fn() -> bool) {
    let half = usize::try_from(free / 2).unwrap_or(usize::MAX);
    touch((objects * PROCESS).min(half), go_on);
}

/// Writes to every page of fresh memory and gives it back. Where it cannot be had, what follows is merely slower.
fn touch(bytes: usize, go_on: impl Fn() -> bool) {
    let Ok(mut memory) = MmapMut::map_anon(bytes) else { return };
    // In large pages, as the allocators take it; where there are none the advice is of no use and does no harm.
    let _ = memory.advise(Advice::HugePage);
    for page in memory.chunks_mut(PAGE).take_while(|_| go_on()) {
        page[0] = 1;
    }
}
