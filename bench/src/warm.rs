//! Memory made ready before the clocks.
//!
//! Many a virtual machine gives its free memory back to its host within seconds, and who touches
//! it again waits for the host: 2.3 ms a megabyte where this was written, against 0.1 ms when the
//! host still has it. A million objects in a fresh process would measure that. So each process
//! touches as much memory as its engine will take right before every clock, and gives it back; and
//! the tool does the same for a whole process before it starts one.

use memmap2::{Advice, MmapMut};

use crate::names::EngineName;

const PAGE: usize = 4096;

/// What an engine takes, in bytes an object: measured at 50,000 generated objects, the peaks over
/// the start of every clock and the peak of the process, one second of stall and of readers. A
/// stall run's backlog has no bound, and is not made ready (deltafifo 1,266 in that second).
struct Takes {
    /// From one clock's start to its peak.
    growth: usize,
    /// The whole process at its peak: its lists, and the engine.
    process: usize,
}

fn takes(engine: EngineName) -> Takes {
    let (growth, process) = match engine {
        // initial: 212
        EngineName::Floor => (220, 2_500),
        // initial and relist: 1,217
        EngineName::KubeWriter => (1_220, 6_500),
        // readers: 370
        EngineName::KubeWriterArc => (370, 3_300),
        // stall: 530
        EngineName::Mutex => (530, 4_600),
        // initial: 299
        EngineName::DashMap => (300, 4_600),
        // initial: 350; events: 542
        EngineName::DeltaFifo
        | EngineName::DeltaFifoSkip
        | EngineName::DeltaFifoOneThread
        | EngineName::DeltaFifoLane
        | EngineName::DeltaFifoSingle => (550, 4_600),
        // Their clocks are in their own process (memory.go).
        EngineName::ClientGoDeltaFifo => (0, 4_500),
        EngineName::ClientGoRealFifo => (0, 5_000),
        EngineName::ClientGoInformer => (0, 6_300),
    };
    Takes { growth, process }
}

/// Makes ready what an engine is about to take for `objects` objects. Belongs right before the
/// clock.
pub fn before_clock(engine: EngineName, objects: usize) {
    touch(objects * takes(engine).growth, || true);
}

/// Makes ready what a process with `objects` objects is about to take, as far as `free` bytes
/// allow, and as long as `go_on` says so.
pub fn before_process(engine: EngineName, objects: usize, free: u64, go_on: impl Fn() -> bool) {
    let half = usize::try_from(free / 2).unwrap_or(usize::MAX);
    touch((objects * takes(engine).process).min(half), go_on);
}

/// Memory for a client of an API server, which takes what it needs as slowly as the server tells
/// it: given back all at once, most of it would be the host's again before its time. It is kept,
/// and given as the client takes it, a piece ahead.
#[cfg(feature = "peers")]
pub struct Ahead {
    kept: Vec<MmapMut>,
    given: u64,
}

#[cfg(feature = "peers")]
impl Ahead {
    const PIECE: usize = 32 << 20;

    /// For so many objects, as far as half of `free` bytes allows.
    #[must_use]
    pub fn of(objects: usize, free: u64) -> Self {
        /// kube-rs' while it lists anew: the most of all.
        const EACH: usize = 12_000;
        let half = usize::try_from(free / 2).unwrap_or(usize::MAX);
        let pieces = (objects * EACH).min(half).div_ceil(Self::PIECE);
        Self { kept: (0..pieces).map_while(|_| touched(Self::PIECE, || true)).collect(), given: 0 }
    }

    /// Gives a piece more than `taken` bytes, as long as there are any.
    pub fn give(&mut self, taken: u64) {
        while self.given < taken + Self::PIECE as u64 && self.kept.pop().is_some() {
            self.given += Self::PIECE as u64;
        }
    }

    /// Whether nothing is kept any more.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.kept.is_empty()
    }
}

/// Writes to every page of fresh memory and gives it back.
fn touch(bytes: usize, go_on: impl Fn() -> bool) {
    drop(touched(bytes, go_on));
}

/// Fresh memory, written to. Where it cannot be had, what follows is merely slower.
fn touched(bytes: usize, go_on: impl Fn() -> bool) -> Option<MmapMut> {
    let mut memory = MmapMut::map_anon(bytes).ok()?;
    // In large pages, as the allocators take it; where there are none the advice is of no use and
    // does no harm.
    let _ = memory.advise(Advice::HugePage);
    for page in memory.chunks_mut(PAGE).take_while(|_| go_on()) {
        page[0] = 1;
    }
    Some(memory)
}
