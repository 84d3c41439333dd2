//! The order of queued keys: by priority, with a guarantee for the key that has been queued
//! longest. A key is represented by the [place](EntryPlace) at which the shards have its entry.
//!
//! Each queued key is in two lists: one of its priority, and one of all keys by age. The head of
//! the highest priority is next, except when it would be the eighth in a row to pass over an older
//! key. Then the oldest key is next.

use std::collections::BTreeMap;

use super::shard::EntryPlace;
use crate::util::slab::list::{Links, List};
use crate::util::slab::{Slab, place_size};

/// Of this number of keys that are taken in a row, at least one is the key that has been queued
/// longest.
const OLDEST_PERIOD: u32 = 8;

/// A queued key, in both lists.
struct Node {
    place: EntryPlace,
    priority: i32,
    level: Links,
    age: Links,
}

const _: () = assert!(place_size::<Node>() == 32, "the docs of the module say so");

impl Node {
    fn level(&mut self) -> &mut Links {
        &mut self.level
    }

    fn age(&mut self) -> &mut Links {
        &mut self.age
    }
}

/// The phase of the queue. It never returns to `Open`; the other two may alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePhase {
    Open,
    /// Adds are ignored, and no drain waits.
    ShutDown,
    /// Adds are ignored, and a drain waits until all keys are done.
    Draining,
}

/// The result of taking a key.
pub(super) enum NextKey {
    Key(EntryPlace),
    Empty,
    /// The queue is empty and was shut down. Only keys that are being processed can still be
    /// queued again.
    ShutDown,
}

/// The queued keys in their order.
pub(super) struct KeyOrder {
    nodes: Slab<Node>,
    /// The keys of each priority. No list is empty.
    levels: BTreeMap<i32, List>,
    by_age: List,
    /// The number of keys that were taken in a row ahead of an older key.
    passed_over: u32,
    /// The number of keys being processed. It changes under the same lock as the lists, so that
    /// there is no moment at which a key is neither queued nor counted.
    processing: usize,
    phase: QueuePhase,
}

impl KeyOrder {
    pub(super) fn new() -> Self {
        Self {
            nodes: Slab::default(),
            levels: BTreeMap::new(),
            by_age: List::default(),
            passed_over: 0,
            processing: 0,
            phase: QueuePhase::Open,
        }
    }

    /// Appends a key. Returns the number with which it can be [raised](Self::raise).
    pub(super) fn push(&mut self, place: EntryPlace, priority: i32) -> u32 {
        let node =
            self.nodes.insert(Node { place, priority, level: Links::NONE, age: Links::NONE });
        self.by_age.push(&mut self.nodes, node, Node::age);
        self.levels.entry(priority).or_default().push(&mut self.nodes, node, Node::level);
        node
    }

    /// Moves a key to the tail of another priority. Does nothing if the key was just taken: then
    /// its number is free or belongs to another key.
    pub(super) fn raise(&mut self, node: u32, place: EntryPlace, priority: i32) {
        if self.nodes.get_mut(node).is_none_or(|found| found.place != place) {
            return;
        }
        self.leave_level(node);
        self.nodes[node].priority = priority;
        self.levels.entry(priority).or_default().push(&mut self.nodes, node, Node::level);
    }

    /// Takes the next key, which counts as being processed from now on.
    pub(super) fn next(&mut self) -> NextKey {
        let highest = self.levels.last_key_value().and_then(|(_, level)| level.first());
        let (Some(highest), Some(oldest)) = (highest, self.by_age.first()) else {
            return if self.phase == QueuePhase::Open { NextKey::Empty } else { NextKey::ShutDown };
        };
        let node = if self.passed_over + 1 < OLDEST_PERIOD { highest } else { oldest };
        self.passed_over = if node == oldest { 0 } else { self.passed_over + 1 };
        self.leave_level(node);
        self.by_age.unlink(&mut self.nodes, node, Node::age);
        self.processing += 1;
        NextKey::Key(self.nodes.remove(node).place)
    }

    /// Records the end of the processing of a key. The caller may push the key again under the
    /// same lock.
    pub(super) fn processed(&mut self) {
        self.processing -= 1;
    }

    fn leave_level(&mut self, node: u32) {
        let priority = self.nodes[node].priority;
        let level = self
            .levels
            .get_mut(&priority)
            .unwrap_or_else(|| unreachable!("the level of a queued key"));
        level.unlink(&mut self.nodes, node, Node::level);
        if level.first().is_none() {
            self.levels.remove(&priority);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn phase(&self) -> QueuePhase {
        self.phase
    }

    pub(super) fn end(&mut self, phase: QueuePhase) {
        self.phase = phase;
    }

    /// Returns whether a drain must still wait.
    pub(super) fn is_draining(&self) -> bool {
        self.phase == QueuePhase::Draining && (self.processing > 0 || self.len() > 0)
    }
}

#[cfg(test)]
impl KeyOrder {
    /// Returns the number of queued keys for which memory is allocated.
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }
}
