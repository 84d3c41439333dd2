//! A slab: values in numbered places. A value keeps its number until it is removed; then the
//! number is reused.
//!
//! The slab grows and shrinks while a lock is held. It therefore does so in chunks, and never
//! moves more than one chunk of values. Chunks without values are freed, except one. A chunk with a
//! single value stays, because the value keeps its number.

pub(crate) mod list;

use std::ops::{Index, IndexMut};

/// The number of places in a chunk. A byte is enough to number them.
const CHUNK: usize = 1 << u8::BITS;

/// The number that means "no place".
const END: u32 = u32::MAX;

/// A place of a slab.
enum Place<T> {
    Taken(T),
    /// A free place, with the number of the next free place of the chunk.
    Free(Option<u8>),
}

/// Returns the number of bytes that a value takes in a slab.
pub(crate) const fn place_size<T>() -> usize {
    size_of::<Place<T>>()
}

/// A slab of values. Numbers are below `u32::MAX`, so that `u32::MAX` can mean "none".
pub(crate) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The numbers of the chunks that have room. New values go into the last of these chunks. An
    /// empty chunk other than the last one has no memory.
    open: Vec<usize>,
    len: usize,
}

/// Up to [`CHUNK`] values.
struct Chunk<T> {
    places: Vec<Place<T>>,
    /// The number of the first free place in `places`; `None` if there is none.
    free: Option<u8>,
    len: usize,
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: None, len: 0 }
    }
}

impl<T> Chunk<T> {
    #[inline]
    fn insert(&mut self, value: T) -> u8 {
        self.len += 1;
        let Some(place) = self.free else {
            self.places.push(Place::Taken(value));
            return u8::try_from(self.places.len() - 1)
                .unwrap_or_else(|_| unreachable!("a chunk with room was chosen"));
        };
        let free = &mut self.places[usize::from(place)];
        let Place::Free(next) = *free else { unreachable!("place {place} is taken") };
        *free = Place::Taken(value);
        self.free = next;
        place
    }

    #[inline]
    fn remove(&mut self, place: u8) -> T {
        let taken = &mut self.places[usize::from(place)];
        let Place::Taken(value) = std::mem::replace(taken, Place::Free(self.free)) else {
            unreachable!("place {place} is empty")
        };
        self.free = Some(place);
        self.len -= 1;
        value
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its number.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let open = self.open.last().copied().unwrap_or_else(|| self.add_chunk());
        let chunk = &mut self.chunks[open];
        let place = chunk.insert(value);
        if chunk.len == CHUNK {
            self.open.pop();
        }
        self.len += 1;
        let number = u32::try_from(open * CHUNK + usize::from(place)).unwrap_or(END);
        assert!(number < END, "four billion places");
        number
    }

    #[cold]
    fn add_chunk(&mut self) -> usize {
        let number = self.chunks.len();
        self.chunks.push(Chunk::default());
        self.open.push(number);
        number
    }

    /// Removes and returns a value. Its number is reused.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> T {
        let (at, place) = split(number);
        let value = self.chunks[at].remove(place);
        self.len -= 1;
        let last = self.open.last().copied();
        if self.chunks[at].len + 1 == CHUNK {
            self.open.push(at);
            // The chunk that was last may have been empty for a while.
            if let Some(last) = last {
                self.free_if_empty(last);
            }
        } else if last != Some(at) {
            self.free_if_empty(at);
        }
        value
    }

    #[cold]
    fn free_if_empty(&mut self, chunk: usize) {
        if self.chunks[chunk].len == 0 {
            self.chunks[chunk] = Chunk::default();
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (chunk, place) = split(number);
        match self.chunks.get(chunk)?.places.get(usize::from(place))? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (chunk, place) = split(number);
        match self.chunks.get_mut(chunk)?.places.get_mut(usize::from(place))? {
            Place::Taken(value) => Some(value),
            Place::Free(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Returns the chunk of a number, and the place in it.
fn split(number: u32) -> (usize, u8) {
    let [place, chunk @ ..] = number.to_le_bytes();
    let [low, middle, high] = chunk;
    (u32::from_le_bytes([low, middle, high, 0]) as usize, place)
}

/// Panics. The number is passed by value: a closure would borrow it, for which each access to a
/// value would first store the number.
#[cold]
#[inline(never)]
fn no_value(number: u32) -> ! {
    unreachable!("place {number} is empty")
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        let Some(value) = self.get(number) else { no_value(number) };
        value
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        let Some(value) = self.get_mut(number) else { no_value(number) };
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    impl<T> Slab<T> {
        /// Returns the number of values for which memory is allocated.
        pub(crate) fn capacity(&self) -> usize {
            self.chunks.iter().map(|chunk| chunk.places.capacity()).sum()
        }
    }

    proptest! {
        /// Checks that a slab has the same values under the same numbers as a map. Also checks that
        /// the slab has no more chunks than it has needed for its largest number of values so far,
        /// and that at most one chunk without values has memory.
        #[test]
        fn value_keeps_its_number_and_empty_chunks_are_freed(
            ops in prop::collection::vec((any::<bool>(), any::<bool>(), 1..900_usize), 0..12)
        ) {
            let (mut slab, mut expected, mut most, mut next) = (Slab::default(), BTreeMap::new(), 0, 0);
            for (inserts, from_the_first, many) in ops {
                for _ in 0..many {
                    let removed = if from_the_first { 0 } else { many % expected.len().max(1) };
                    if inserts {
                        assert!(expected.insert(slab.insert(next), next).is_none());
                        next += 1;
                    } else if let Some(number) = expected.keys().nth(removed).copied() {
                        assert_eq!(Some(slab.remove(number)), expected.remove(&number));
                        assert!(slab.get(number).is_none() && slab.get_mut(number).is_none());
                    }
                    most = most.max(expected.len());
                }
                let used: BTreeSet<_> = expected.keys().map(|&number| split(number).0).collect();
                assert!(slab.capacity() <= CHUNK * (used.len() + 1));
                assert!(slab.chunks.len() <= most.div_ceil(CHUNK));
                assert_eq!(slab.len(), expected.len());
                assert!(expected.iter().all(|(&number, value)| slab[number] == *value));
            }
        }
    }
}
