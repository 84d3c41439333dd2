//! The table that finds the entry of a key.

use deltafifo::room::less_room;
use hashbrown::HashTable;

/// The hash of a key. The table stores it with each number, so 32 bits save memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyHash(u32);

impl KeyHash {
    /// Returns the lower half of a hash. All of that half must depend on the whole key.
    pub(super) const fn of(hash: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the upper half is not needed")]
        Self(hash as u32)
    }

    /// Returns the hash with as many bits as the table takes: it chooses a bucket by the lower
    /// ones, and compares the upper ones.
    fn spread(self) -> u64 {
        u64::from(self.0) << u32::BITS | u64::from(self.0)
    }
}

/// The numbers of entries by the hashes of their keys. When the table grows or shrinks, it reads no
/// entry, which would be a cache miss for each.
#[derive(Default)]
pub(super) struct KeyTable(HashTable<(KeyHash, u32)>);

impl KeyTable {
    /// Returns the number with this hash whose entry has the key, as `is_of_key` says.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, is_of_key: impl Fn(u32) -> bool) -> Option<u32> {
        let is_equal = |&(other, slot): &_| other == hash && is_of_key(slot);
        self.0.find(hash.spread(), is_equal).map(|&(_, slot)| slot)
    }

    /// Adds a number that is not in the table.
    #[inline]
    pub(super) fn insert(&mut self, hash: KeyHash, slot: u32) {
        self.0.insert_unique(hash.spread(), (hash, slot), |(hash, _)| hash.spread());
    }

    /// Removes a number, and gives unused memory back.
    #[inline]
    pub(super) fn remove(&mut self, hash: KeyHash, slot: u32) {
        match self.0.find_entry(hash.spread(), |&(_, other)| other == slot) {
            Ok(found) => drop(found.remove()),
            Err(_) => unreachable!("an entry is in the table"),
        }
        if let Some(room) = less_room(self.0.len(), self.0.capacity()) {
            self.0.shrink_to(room, |(hash, _)| hash.spread());
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_with_equal_hashes_are_found_and_removed_by_their_numbers() {
        let (mut table, hash) = (KeyTable::default(), KeyHash::of(7));
        let upper_half_differs = KeyHash::of(7 | 1 << u32::BITS);
        let found = |table: &KeyTable, slot| table.find(upper_half_differs, |other| other == slot);
        (0..100).for_each(|slot| table.insert(hash, slot));
        assert!((0..100).all(|slot| found(&table, slot) == Some(slot)));
        (0..100).filter(|slot| slot % 2 == 0).for_each(|slot| table.remove(hash, slot));
        assert!(
            (0..100).all(|slot| found(&table, slot) == Some(slot).filter(|slot| slot % 2 == 1))
        );
        assert_eq!(table.find(KeyHash::of(8), |_| true), None);
        let tags = (0..128).map(|tag| KeyHash::of(tag << 25).spread() >> 57);
        assert!(tags.eq(0..128), "the tag is in the upper seven bits");
    }
}
