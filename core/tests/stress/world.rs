//! What a round's threads share. Their notes are kept without locks, and relaxed: a lock around
//! them would order the threads, and so hide from the sanitizers, and from chance, what the queue
//! itself fails to order.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use super::common::{Obj, Rig};
use super::plan::{Dice, Plan, object};

pub struct World {
    pub plan: Plan,
    pub rig: Rig,
    pub keys: Vec<Key>,
    /// The newest relist's number: what it lists is not older than what the one before it listed.
    /// Held over the begin, so that relists are numbered in the order in which they supersede each
    /// other.
    pub relists: Mutex<u64>,
    /// Of the last marker.
    version: AtomicU64,
    seed: u64,
    stopped: AtomicBool,
    /// Set before the last relist: from here on every handler must bring the store up to date.
    mending: AtomicBool,
}

/// Notes on one key.
#[derive(Default)]
pub struct Key {
    /// Who handles it now.
    pub handlers: AtomicUsize,
    /// How often it was popped.
    pub pops: AtomicUsize,
    /// The number of the object that its last handler stored; 0: none.
    pub stored: AtomicU64,
    /// The greatest number of its owner's of which a handler has ended.
    pub handled: AtomicU64,
}

/// What was offered, or handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// `A`, `U`, `D`, `R` or `S`.
    pub kind: char,
    pub n: u64,
}

/// Added to the number of what a relist lists of a producer's key: the producers' numbers are
/// lower.
pub const RELISTED: u64 = 1_000_000;

/// What a thread that offers has to say at its end.
#[derive(Default)]
pub struct Offered {
    /// By key, in order; whether it may be left out although nothing is folded.
    pub told: Vec<(usize, Told, bool)>,
    /// What must be stored at the end.
    pub truth: Vec<(usize, u64)>,
    /// Every object that was made.
    pub objects: Vec<Weak<Obj>>,
}

impl Offered {
    /// An object, noted.
    pub fn make(&mut self, number: usize, n: u64) -> Arc<Obj> {
        let made = object(number, n);
        self.objects.push(Arc::downgrade(&made));
        made
    }
}

/// One handler's turn with a key of a producer.
pub struct Handled {
    pub key: usize,
    /// Its place among the pops of this key.
    pub pop: usize,
    pub told: Vec<Told>,
}

impl World {
    pub fn new(plan: Plan, seed: u64) -> Self {
        let keys = (0..plan.keys()).map(|_| Key::default()).collect();
        let (stopped, mending) = (AtomicBool::new(false), AtomicBool::new(false));
        let version = AtomicU64::new(RELISTED);
        Self {
            plan,
            rig: plan.rig(),
            keys,
            relists: Mutex::new(0),
            version,
            seed,
            stopped,
            mending,
        }
    }

    pub fn dice(&self, thread: u64) -> Dice {
        Dice::new(self.seed, thread)
    }

    /// A version that is greater than all before it.
    pub fn next_version(&self) -> String {
        // AcqRel: whoever has a greater one puts its marker behind all that the caller has
        // offered, so that the caller may be told by that one.
        (self.version.fetch_add(1, Ordering::AcqRel) + 1).to_string()
    }

    /// Tells readers and relists to end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.rig.fifo.is_closed()
    }

    pub fn mend(&self) {
        // Relaxed: who takes a delta of the last relist sees what was done before it was offered,
        // or the queue is wrong.
        self.mending.store(true, Ordering::Relaxed);
    }

    pub fn is_mending(&self) -> bool {
        self.mending.load(Ordering::Relaxed)
    }
}

/// Closes the queue when its thread panics, so that the others end and the panic is seen.
pub struct CloseOnPanic<'a>(pub &'a World);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.rig.fifo.close();
        }
    }
}
