//! One value behind many locks, chosen by a key's hash, so that threads with different keys seldom
//! meet.

use std::hash::{BuildHasher, Hash};

use deltafifo::locks::{Mutex, MutexGuard};
use foldhash::fast::RandomState;

/// How many, at most 256. Two of eight threads want the same one of 64 now and then, not often.
const SHARDS: u8 = 64;

/// A cache line of its own: neighbours do not take it from each other.
#[repr(align(64))]
struct Padded<T>(Mutex<T>);

pub(super) struct Sharded<T> {
    shards: Box<[Padded<T>]>,
    hasher: RandomState,
}

impl<T: Default> Sharded<T> {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Padded(Mutex::new(T::default()))).collect(),
            hasher: RandomState::default(),
        }
    }

    pub(super) fn hash(&self, key: &impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The number of the shard for a hash: of bits that a hash table uses neither for the bucket
    /// nor for its tag.
    pub(super) fn number_of(hash: u64) -> u8 {
        hash.to_le_bytes()[6] % SHARDS
    }

    pub(super) fn lock(&self, number: u8) -> MutexGuard<'_, T> {
        self.shards[usize::from(number)].0.lock()
    }

    /// All of them, locked one after another as the iterator goes.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.shards.iter().map(|shard| shard.0.lock())
    }
}
