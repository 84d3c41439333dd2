//! A queue in chunks. When it grows, it moves the items of at most one chunk: it grows under a
//! handler's lock, where a long pause would delay the delivery to all handlers.

use std::collections::VecDeque;

/// The size of a chunk, and so the largest number of items that are moved when the queue grows.
const CHUNK: usize = 256;

/// A first-in, first-out queue.
pub(super) struct ChunkedQueue<T> {
    /// The chunks, oldest first. A chunk may be empty only if it is the only one. It is kept, so
    /// that a handler that keeps up causes no allocation for each change.
    chunks: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> ChunkedQueue<T> {
    pub(super) fn new() -> Self {
        Self { chunks: VecDeque::new(), len: 0 }
    }

    pub(super) fn push_back(&mut self, item: T) {
        self.len += 1;
        match self.chunks.back_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push_back(item),
            None => self.chunks.push_back([item].into()),
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let chunk = self.chunks.front_mut()?;
        let item = chunk.pop_front()?;
        self.len -= 1;
        if chunk.is_empty() && self.chunks.len() > 1 {
            self.chunks.pop_front();
        }
        Some(item)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}
