//! Numbers and sets of shards.

use std::fmt;

/// The number of shards of a group: a power of two, at most [`ShardCount::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShardCount(u8);

impl ShardCount {
    pub(crate) const MAX: u32 = 128;

    /// Returns `None` if the number is not a power of two, or is too large.
    pub(crate) fn new(count: u32) -> Option<Self> {
        let is_valid = count.is_power_of_two() && count <= Self::MAX;
        u8::try_from(count).ok().filter(|_| is_valid).map(Self)
    }

    pub(crate) fn get(self) -> usize {
        self.0.into()
    }

    /// Returns all shards.
    pub(crate) fn all(self) -> impl Iterator<Item = u8> {
        0..self.0
    }

    /// Returns the shard of a hash. Each shard is a range of hashes, and the ranges are in the
    /// order of the shards.
    pub(crate) fn shard_of(self, hash: u64) -> u8 {
        // The shard is the first `log2(count)` bits. A shift by 64 bits would overflow.
        let shard = hash.checked_shr(u64::BITS - self.0.ilog2()).unwrap_or_default();
        u8::try_from(shard).expect("there are at most 128 shards")
    }

    /// Returns the smallest hash of a shard, or 2⁶⁴ for the number after the last shard.
    pub(crate) fn first_hash(self, shard: u8) -> u128 {
        u128::from(shard) << (u64::BITS - self.0.ilog2())
    }
}

/// A set of shards.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ShardSet(u128);

impl ShardSet {
    /// Returns whether the set contains a shard.
    #[must_use]
    pub fn contains(self, shard: u8) -> bool {
        self.0 & bit(shard) != 0
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn len(self) -> usize {
        self.iter().count()
    }

    /// Returns whether the set has no shard.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the shards in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..128).filter(move |shard| self.contains(*shard))
    }

    pub(crate) fn insert(&mut self, shard: u8) {
        self.0 |= bit(shard);
    }

    pub(crate) fn remove(&mut self, shard: u8) {
        self.0 &= !bit(shard);
    }
}

/// Returns the bit of a shard, or 0 for a number that no shard has.
fn bit(shard: u8) -> u128 {
    1_u128.checked_shl(shard.into()).unwrap_or_default()
}

/// For the objects that an informer of a part of the shards has.
impl ShardSet {
    /// Returns the shards that are in this set or in the other one.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the shards that are in both sets.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the shards of this set that are not in the other one.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<u8> for ShardSet {
    /// Creates a set of these shards. Ignores numbers from 128 on, which no shard has.
    fn from_iter<I: IntoIterator<Item = u8>>(shards: I) -> Self {
        let mut set = Self::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::{ShardCount, ShardSet};

    #[test]
    fn number_of_shards_is_a_power_of_two_of_at_most_128() {
        let valid = (0..=1024).filter(|count| ShardCount::new(*count).is_some());
        assert_eq!(valid.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128]);
        assert!(ShardCount::new(1 << 31).is_none());
    }

    #[test]
    fn set_ignores_numbers_that_no_shard_has() {
        let mut set = ShardSet::from_iter([3, 127, 128, 131, 255]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 127]);
        assert!(set.contains(127) && !set.contains(131));
        set.remove(131);
        assert_eq!(set.len(), 2);
    }

    #[test]
    fn shards_divide_the_hashes_into_equal_ranges() {
        for count in (0..=7).map(|power| 1 << power) {
            let shards = ShardCount::new(count).unwrap();
            for shard in 0..u8::try_from(count).unwrap() {
                let (first, after) = (shards.first_hash(shard), shards.first_hash(shard + 1));
                assert_eq!(after - first, (1 << 64) / u128::from(count));
                for hash in [first, after - 1] {
                    assert_eq!(shards.shard_of(hash.try_into().unwrap()), shard);
                }
            }
        }
    }
}
