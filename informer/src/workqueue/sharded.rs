//! Many locks, each with a value of its own. The hash of a key chooses the lock, so that threads
//! with different keys rarely contend.

use std::hash::{BuildHasher, Hash};

use deltafifo::locks::{Mutex, MutexGuard};
use foldhash::fast::RandomState;

/// The number of shards, at most 256. With 64, eight threads rarely need the same one.
const SHARDS: u8 = 64;

/// A shard with a cache line of its own, to avoid false sharing.
#[repr(align(64))]
struct Padded<T>(Mutex<T>);

/// Values of type `T` behind [`SHARDS`] locks.
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

    /// Returns the number of the shard for a hash. It consists of bits that the hash tables in the
    /// shards (hashbrown's) do not use to choose the bucket or the tag of an entry.
    pub(super) fn number_of(hash: u64) -> u8 {
        hash.to_le_bytes()[6] % SHARDS
    }

    pub(super) fn lock(&self, number: u8) -> MutexGuard<'_, T> {
        self.shards[usize::from(number)].0.lock()
    }

    /// Locks the shards one after another, as the iterator advances.
    #[cfg(test)]
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.shards.iter().map(|shard| shard.0.lock())
    }
}
