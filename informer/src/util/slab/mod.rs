//! A slab: values in numbered places. A value keeps its number until it is removed; then the
//! number is reused.
//!
//! The slab grows while a lock is held. It therefore grows in chunks, and never moves more than
//! one chunk of values.

pub(crate) mod list;

use std::ops::{Index, IndexMut};

/// Places in a chunk.
const CHUNK: usize = 256;

/// The number that means "no place".
const END: u32 = u32::MAX;

/// A place of a slab.
enum Place<T> {
    Taken(T),
    /// Links to the next free place.
    Free(u32),
}

/// Returns the bytes that a value takes in a slab.
pub(crate) const fn place_size<T>() -> usize {
    size_of::<Place<T>>()
}

/// A slab of values. Numbers are below `u32::MAX`, so that number can mean "none".
pub(crate) struct Slab<T> {
    /// All chunks but the last have [`CHUNK`] places.
    chunks: Vec<Vec<Place<T>>>,
    /// The first free place, or [`END`].
    free: u32,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: END, len: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free != END {
            let number = self.free;
            let Place::Free(next) = std::mem::replace(self.place(number), Place::Taken(value))
            else {
                unreachable!("place {number} is taken")
            };
            self.free = next;
            return number;
        }
        let number = u32::try_from(self.len - 1).unwrap_or(END);
        assert!(number < END, "four billion places");
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(Place::Taken(value)),
            None => self.chunks.push([Place::Taken(value)].into()),
        }
        number
    }

    /// Removes and returns a value. Its number is reused.
    pub(crate) fn remove(&mut self, number: u32) -> T {
        let free = Place::Free(self.free);
        let Place::Taken(value) = std::mem::replace(self.place(number), free) else {
            unreachable!("place {number} is empty")
        };
        self.free = number;
        self.len -= 1;
        value
    }

    fn place(&mut self, number: u32) -> &mut Place<T> {
        let (chunk, place) = split(number);
        &mut self.chunks[chunk][place]
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (chunk, place) = split(number);
        match self.chunks.get(chunk)?.get(place)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (chunk, place) = split(number);
        match self.chunks.get_mut(chunk)?.get_mut(place)? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

fn split(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / CHUNK, number % CHUNK)
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).unwrap_or_else(|| unreachable!("place {number} is empty"))
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).unwrap_or_else(|| unreachable!("place {number} is empty"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares a slab with a map. It also has no more places than values were ever in it at
        /// once.
        #[test]
        fn a_value_keeps_its_place(ops in prop::collection::vec((any::<bool>(), 1..300_usize), 0..20)) {
            let (mut slab, mut expected, mut most, mut next) = (Slab::default(), BTreeMap::new(), 0, 0);
            for (inserts, many) in ops {
                for _ in 0..many {
                    if inserts {
                        assert!(expected.insert(slab.insert(next), next).is_none());
                        next += 1;
                    } else if let Some(number) = expected.keys().nth(many % expected.len().max(1)).copied() {
                        assert_eq!(Some(slab.remove(number)), expected.remove(&number));
                        assert!(slab.get(number).is_none() && slab.get_mut(number).is_none());
                    }
                }
                most = most.max(expected.len());
                assert_eq!(slab.len(), expected.len());
                assert!(expected.iter().all(|(&number, value)| (number as usize) < most && slab[number] == *value));
            }
        }
    }
}
