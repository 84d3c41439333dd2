//! Which relist is current, and the generation that offers stamp with.

use crate::engine::sync::{AtomicU32, Mutex, Ordering, mutant};

/// That of a relist for which no generation was left. No relist that is open has it, and no stamp is older.
pub(super) const NO_GENERATION: u32 = 0;

/// Which relist is current.
pub(in crate::fifo) struct Relists {
    /// The current relist's generation while it is open, else 0. Changed under `last`.
    open: AtomicU32,
    pub(super) last: Mutex<Last>,
}

pub(super) struct Last {
    /// The last one given out.
    pub(super) generation: u32,
    /// Of the last commit.
    pub(super) version: Option<String>,
}

impl Relists {
    pub(in crate::fifo) fn new() -> Self {
        Self { open: AtomicU32::new(0), last: Mutex::new(Last { generation: 0, version: None }) }
    }

    /// The generation to stamp with, 0 when no relist is open. Read with the shard's lock held.
    pub(in crate::fifo) fn open(&self) -> u32 {
        // Acquire, paired with `begin`. An offer that still sees the state before a begin comes before that relist.
        self.open.load(Ordering::Acquire)
    }

    /// Begins a relist; `claim` belongs to that step. Its generation, and what `claim` said. `wait` waits for what the shards'
    /// holders push; in between no relist is current, so that nothing that an older one still pushes comes after an offer that
    /// counts as listed by this one. None: no generation is left, and nothing has begun.
    pub(super) fn begin<R>(&self, claim: impl FnOnce() -> R, wait: impl FnOnce()) -> Option<(u32, R)> {
        let mut last = self.last.lock();
        last.generation = last.generation.checked_add(1)?;
        if self.open() != 0 {
            let meanwhile = mutant!(BegunBeforeItWaits => last.generation; 0);
            // Release, paired with `open`, here and below.
            self.open.store(meanwhile, Ordering::Release);
            wait();
        }
        self.open.store(last.generation, Ordering::Release);
        // After that: an offer that finds the population claimed must count as listed.
        Some((last.generation, claim()))
    }

    /// Ends a relist if it is still the current one; `step`, which may change the version, belongs to that.
    pub(super) fn end<R>(&self, generation: u32, step: impl FnOnce(&mut Option<String>) -> R) -> Option<R> {
        let mut last = self.last.lock();
        if last.generation != generation {
            return None;
        }
        // Release, paired with `open`.
        self.open.store(0, Ordering::Release);
        Some(step(&mut last.version))
    }

    /// Asked with a shard's lock held: what is then pushed under that lock comes before the newer relist's first object, if
    /// one begins meanwhile (see `begin_replace`).
    pub(in crate::fifo) fn is_current(&self, generation: u32) -> bool {
        self.open() == generation
    }
}
