//! Numbered places: a value keeps its number until it is removed, then the number is used again.

use std::ops::{Index, IndexMut};

/// A vector with holes. Its numbers are below `u32::MAX`, which may therefore mean "none".
pub(super) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.places[number as usize] = Some(value);
            return number;
        }
        let number = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        assert!(number < u32::MAX, "four billion places");
        self.places.push(Some(value));
        number
    }

    pub(super) fn remove(&mut self, number: u32) -> T {
        let value = self.places[number as usize].take().unwrap_or_else(|| unreachable!("place {number} is empty"));
        self.free.push(number);
        value
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.places[number as usize].as_ref().unwrap_or_else(|| unreachable!("place {number} is empty"))
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).unwrap_or_else(|| unreachable!("place {number} is empty"))
    }
}
