//! Keeps the texts of recently used [bases](super::base) unpacked, up to a number of bytes.

use std::collections::VecDeque;
use std::sync::Weak;

use super::stored::{Material, Reference};
use super::sync::{AtomicUsize, Mutex, Ordering};

/// The bases whose texts are unpacked, in the order of eviction. The base at the front loses its
/// unpacked text. If the text was used since the base was last queued, the base is queued again
/// instead.
pub(super) struct Cache {
    limit: usize,
    /// The number of bytes of the texts that are unpacked now. A base subtracts those of its text
    /// when the text or the base is dropped.
    pub(super) bytes: AtomicUsize,
    queue: Mutex<VecDeque<Weak<Reference>>>,
}

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: AtomicUsize::new(0), queue: Mutex::default() }
    }

    /// Queues `base`, whose text has just been unpacked and counted, and evicts texts until the
    /// limit is met.
    pub(super) fn admit(&self, base: Weak<Reference>) {
        // Each of these may be the last handle of its base, so they are dropped after the lock is
        // released.
        let mut dropped = Vec::new();
        let mut queue = self.queue.lock();
        if queue.len() == queue.capacity() {
            queue.retain(|base| base.strong_count() > 0);
        }
        queue.push_back(base);
        // Each base gets one second chance, so this ends.
        for _ in 0..2 * queue.len() {
            // Relaxed: the sum is a limit for memory, and orders nothing.
            if self.bytes.load(Ordering::Relaxed) <= self.limit {
                break;
            }
            let Some(front) = queue.pop_front() else { break };
            let Some(base) = front.upgrade() else { continue };
            if let Material::Base(base) = &base.kind
                && !base.evict()
            {
                queue.push_back(front);
            }
            dropped.push(base);
        }
        drop(queue);
    }
}
