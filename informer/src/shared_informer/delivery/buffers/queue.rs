//! A queue that moves little of what is in it when it grows: it grows behind a handler's lock, and
//! whoever tells the handler has others to tell.

use std::collections::VecDeque;

/// So many stand together, and are moved together at most.
const CHUNK: usize = 256;

/// None of the chunks is empty, but it may be the only one: who keeps up with changes is to
/// allocate nothing for each.
pub(super) struct Queue<T> {
    chunks: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Queue<T> {
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
