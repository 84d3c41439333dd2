//! The plan of a round: the kind of its queue, and its numbers of keys and offers.

use super::PRODUCERS;
use super::common::{Mode, Obj, Outside, Rig, keys, versioned};
use deltafifo::{DeltaFifo, Indexer};
use std::sync::Arc;

/// The number of plans. The remainder of a seed selects its plan.
pub const PLANS: u64 = 9;

/// The number of keys of each producer. It is small, so that handlers, offers and resyncs collide.
const OWNED: usize = if cfg!(miri) { 3 } else { 20 };

#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // Options of a queue, each on or off.
pub struct Plan {
    pub mode: Mode,
    pub skip_unchanged: bool,
    pub notify_unchanged: bool,
    /// The number of threads that split a large page of a relist.
    pub threads: usize,
    pub relisted: usize,
    pub page: usize,
    /// Whether the store has a user's index, whose values change with nearly every update.
    pub indexed: bool,
    pub ordered_walks: bool,
    /// Whether the queue has a lane for live events.
    pub live_lane: bool,
    /// Whether the queue tracks applied versions. Producers then add markers, and wait for them.
    pub track_applied: bool,
    /// The number of offers of each producer.
    pub offers: u64,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let usual = Self {
            mode: Mode::Fused,
            skip_unchanged: false,
            notify_unchanged: false,
            threads: 1,
            relisted: if cfg!(miri) { 3 } else { 300 },
            page: 50,
            indexed: false,
            ordered_walks: false,
            live_lane: false,
            track_applied: false,
            offers: if cfg!(miri) { 15 } else { 3_000 },
        };
        match seed % PLANS {
            0 => Self { ordered_walks: true, ..usual },
            1 => Self { skip_unchanged: true, threads: 2, ..usual },
            2 => Self { notify_unchanged: true, indexed: true, track_applied: true, ..usual },
            3 => Self { mode: Mode::Elsewhere, ..usual },
            4 => Self {
                mode: Mode::Elsewhere,
                ordered_walks: true,
                threads: 2,
                track_applied: true,
                ..usual
            },
            // So large that the threads split the join of a page.
            5 if !cfg!(miri) => {
                let large = Self { relisted: 33_000, page: 33_000, ..usual };
                Self { skip_unchanged: true, threads: 2, track_applied: true, ..large }
            }
            // So short that it ends almost at once.
            6 => Self { indexed: true, offers: if cfg!(miri) { 3 } else { 40 }, ..usual },
            7 => Self { live_lane: true, threads: 2, indexed: true, track_applied: true, ..usual },
            8 => Self { live_lane: true, mode: Mode::Elsewhere, track_applied: true, ..usual },
            _ => Self { skip_unchanged: true, indexed: true, ..usual },
        }
    }

    pub fn keys(&self) -> usize {
        PRODUCERS * OWNED + self.relisted
    }

    /// Returns whether relists may list this key of a producer, too. The key's deltas are then the
    /// producer's, in order, with deltas of relists between them. At the end the store has the
    /// object that the last relist lists, or none if that relist does not list the key.
    pub fn is_shared(number: usize) -> bool {
        number % 4 == 1 && number < Self::owned(PRODUCERS - 1).end
    }

    /// Returns the numbers of the keys that a producer owns.
    pub fn owned(producer: usize) -> std::ops::Range<usize> {
        producer * OWNED..(producer + 1) * OWNED
    }

    /// Returns the numbers of the keys that no producer owns.
    pub fn unowned(&self) -> std::ops::Range<usize> {
        PRODUCERS * OWNED..self.keys()
    }

    pub fn rig(&self) -> Rig {
        let outside = Arc::new(Outside::default());
        let builder = match self.mode {
            Mode::Fused => {
                let store = Indexer::builder(keys());
                let store = if self.indexed {
                    store.index("class", |obj: &Obj| Ok(classes(obj.n)))
                } else {
                    store
                };
                DeltaFifo::over(store.build().unwrap())
            }
            _ => DeltaFifo::builder(keys()).known_objects(outside.clone()),
        };
        let builder =
            builder.skip_unchanged(self.skip_unchanged).notify_unchanged(self.notify_unchanged);
        let builder = builder
            .relist_threads(self.threads)
            .ordered_walks(self.ordered_walks)
            .high_water(2_000);
        let builder = builder.live_lane(self.live_lane).track_applied(self.track_applied);
        Rig { mode: self.mode, fifo: Arc::new(builder.build()), outside }
    }
}

/// Returns the values of the user's index for an object's number: two of five, or none.
pub fn classes(n: u64) -> Vec<String> {
    let of = |class: u64| format!("class-{}", class % 5);
    if n.is_multiple_of(7) { Vec::new() } else { vec![of(n), of(n / 5)] }
}

/// Returns the key with this number. Some keys are too long for their slot.
pub fn key(number: usize) -> String {
    let padding =
        if number.is_multiple_of(4) { "-with-a-name-that-does-not-fit-into-its-slot" } else { "" };
    format!("space-{}/{number}{padding}", number % 8)
}

/// Returns the number of a key.
pub fn number(key: &str) -> usize {
    let name = key.split_once('/').unwrap_or_else(|| panic!("no key of ours: {key}")).1;
    name.split('-')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no key of ours: {key}"))
}

/// Returns an object with version `n` for the key with this number.
pub fn object(number: usize, n: u64) -> Arc<Obj> {
    versioned(&key(number), n, &n.to_string())
}

/// A random number generator, which is deterministic for a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, thread: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(1_000) + thread);
        dice.roll(2);
        dice
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    pub fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll(sides as u64)).unwrap()
    }
}
