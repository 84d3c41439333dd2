//! The data that the threads of a round share. The threads record with relaxed atomics and without
//! locks. A lock would order the threads, and so hide from the sanitizers accesses that the queue
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
    /// The number of the newest relist, whose objects are not older than those of the relist
    /// before it. Locked while a relist begins, so that the numbers follow the order in which
    /// relists supersede each other.
    pub relists: Mutex<u64>,
    /// The version of the last marker.
    version: AtomicU64,
    seed: u64,
    stopped: AtomicBool,
    /// Whether the last relist has begun or is about to. From then on every handler must apply its
    /// item.
    mending: AtomicBool,
}

/// The records about a key.
#[derive(Default)]
pub struct Key {
    /// The number of handlers that run for the key now.
    pub handlers: AtomicUsize,
    /// The number of times that the key was popped.
    pub pops: AtomicUsize,
    /// The number of the object that the key's last handler stored, or 0.
    pub stored: AtomicU64,
    /// The largest number of an object that the key's owner offered and whose handler has ended.
    pub handled: AtomicU64,
}

/// A delta that was offered, or that a handler got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind: `A`, `U`, `D`, `R` or `S`.
    pub kind: char,
    pub n: u64,
}

/// The number that is added to the numbers of objects if a relist lists a producer's key.
/// Producers' numbers are lower.
pub const RELISTED: u64 = 1_000_000;

/// The records of a thread that offers.
#[derive(Default)]
pub struct Offered {
    /// The offers in order: the number of the key, the delta, and whether the queue may ignore the
    /// offer because the key is pending (`add_if_not_present`), so that no handler gets it.
    pub notes: Vec<(usize, Note, bool)>,
    /// The objects that must be stored at the end, each as the numbers of its key and of the
    /// object.
    pub truth: Vec<(usize, u64)>,
    /// Every object that was created.
    pub objects: Vec<Weak<Obj>>,
}

impl Offered {
    /// Creates an object and records it.
    pub fn make(&mut self, number: usize, n: u64) -> Arc<Obj> {
        let made = object(number, n);
        self.objects.push(Arc::downgrade(&made));
        made
    }
}

/// A handled item of a producer's key.
pub struct Handled {
    pub key: usize,
    /// The item's position among the pops of its key.
    pub pop: usize,
    pub notes: Vec<Note>,
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

    /// Returns a version that is greater than all before it.
    pub fn next_version(&self) -> String {
        // AcqRel: a marker with a greater version comes after everything that this caller has
        // offered, so its version may answer this caller's wait.
        (self.version.fetch_add(1, Ordering::AcqRel) + 1).to_string()
    }

    /// Ends the loops of readers and relists.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.rig.fifo.is_closed()
    }

    pub fn mend(&self) {
        // Relaxed: a consumer that takes a delta of the last relist must see all that happened
        // before the offer. If it does not, the queue is faulty.
        self.mending.store(true, Ordering::Relaxed);
    }

    pub fn is_mending(&self) -> bool {
        self.mending.load(Ordering::Relaxed)
    }
}

/// A guard that closes the queue when its thread panics, so that the other threads end and the test
/// fails with that panic.
pub struct CloseOnPanic<'a>(pub &'a World);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.rig.fifo.close();
        }
    }
}
