//! Touches memory before measurements start.
//!
//! Many virtual machines return free memory to their host within seconds, and get it back slowly.
//! On the machine of the measurements this took 2.3 ms per megabyte, against 0.1 ms for memory
//! that the virtual machine still had. With a million objects in a fresh process, a benchmark
//! would mostly measure this delay. So before each measurement the process touches as much memory
//! as its engine will use, and frees it. Before the tool starts a child process, it touches and
//! frees as much memory as that process will use.

use memmap2::{Advice, MmapMut};

use crate::names::EngineName;

const PAGE: usize = 4096;

/// Returns the memory of an engine, in bytes per object: the largest growth from the start of a
/// measurement to its peak, and the peak of the whole process, with its lists and the engine. The
/// figures in Rust are those of the full run at 4758c9e1 (1,000,000 generated objects, relists of
/// `stall` for ten seconds), rounded up. The backlog of `stall` has no bound: a run with fewer
/// objects, or a longer one, needs more for each object.
fn footprint(engine: EngineName) -> (usize, usize) {
    match engine {
        // initial: 160
        EngineName::Floor | EngineName::FloorTwoThreads => (220, 3_200),
        // readers: 1,565; churn: 8,371
        EngineName::KubeWriter => (1_570, 8_400),
        // readers: 718; churn: 3,867
        EngineName::KubeWriterArc => (720, 3_900),
        // stall: 760; relist: 5,328
        EngineName::Mutex => (760, 5_400),
        // initial: 346; relist: 5,209
        EngineName::DashMap => (350, 5_300),
        // stall: 723; relist: 5,021
        EngineName::DeltaFifo
        | EngineName::DeltaFifoSkip
        | EngineName::DeltaFifoOneThread
        | EngineName::DeltaFifoLane
        | EngineName::DeltaFifoSingle => (730, 5_100),
        // These engines are measured in their own process, which touches its memory itself
        // (`memory.go`).
        EngineName::ClientGoDeltaFifo => (0, 4_500),
        EngineName::ClientGoRealFifo => (0, 5_000),
        EngineName::ClientGoInformer => (0, 6_300),
        // They run only the workload `cache`, which measures CPU time.
        EngineName::DeltaFifoWithout
        | EngineName::DeltaFifoCompact
        | EngineName::DeltaFifoCompactValidated
        | EngineName::Gzip
        | EngineName::Cbor
        | EngineName::ClientGoUnstructured => (0, 0),
    }
}

/// Returns the peak of the memory of an engine's process, in bytes per object.
pub fn process_bytes(engine: EngineName) -> usize {
    footprint(engine).1
}

/// Touches the memory that an engine is about to use for `objects` objects. Call it immediately
/// before a measurement starts.
pub fn before_clock(engine: EngineName, objects: usize) {
    touch(objects * footprint(engine).0, || true);
}

/// Touches the memory that a process with `objects` objects is about to use, at most half of the
/// `free` bytes. Stops early if `should_continue` returns false.
pub fn before_process(
    engine: EngineName,
    objects: usize,
    free: u64,
    should_continue: impl Fn() -> bool,
) {
    let half = usize::try_from(free / 2).unwrap_or(usize::MAX);
    touch((objects * process_bytes(engine)).min(half), should_continue);
}

/// Touched memory that is released in pieces to a client of an API server. The client uses memory
/// as slowly as the server sends objects. If all memory were released at once, most of it would go
/// back to the host before the client needs it.
#[cfg(feature = "peers")]
pub struct ReservedMemory {
    pieces: Vec<MmapMut>,
    released: u64,
}

#[cfg(feature = "peers")]
impl ReservedMemory {
    const PIECE: usize = 32 << 20;

    /// Touches memory for this many objects, at most half of `free` bytes.
    pub fn reserve(objects: usize, free: u64) -> Self {
        /// The largest memory of a client, in bytes an object: that of kube-rs during a relist.
        const OBJECT: usize = 12_000;
        let half = usize::try_from(free / 2).unwrap_or(usize::MAX);
        let pieces = (objects * OBJECT).min(half).div_ceil(Self::PIECE);
        Self {
            pieces: (0..pieces).map_while(|_| map_touched(Self::PIECE, || true)).collect(),
            released: 0,
        }
    }

    /// Releases pieces until the released memory exceeds `used` bytes by at least one piece, or
    /// until no piece is left. Returns whether a piece is left.
    pub fn release(&mut self, used: u64) -> bool {
        while self.released < used + Self::PIECE as u64 && self.pieces.pop().is_some() {
            self.released += Self::PIECE as u64;
        }
        !self.pieces.is_empty()
    }
}

/// Writes to every page of fresh memory, and frees it.
fn touch(bytes: usize, should_continue: impl Fn() -> bool) {
    drop(map_touched(bytes, should_continue));
}

/// Returns fresh memory whose pages were written to. Returns `None` if there is none; the
/// measurement is slower then.
fn map_touched(bytes: usize, should_continue: impl Fn() -> bool) -> Option<MmapMut> {
    let mut memory = MmapMut::map_anon(bytes).ok()?;
    // Huge pages, as the allocators use them. Without huge pages the advice has no effect.
    let _ = memory.advise(Advice::HugePage);
    for page in memory.chunks_mut(PAGE).take_while(|_| should_continue()) {
        page[0] = 1;
    }
    Some(memory)
}
