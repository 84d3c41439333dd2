//! The order of queued keys: by priority, and fair to who has been queued longest. It knows
//! places, not keys.
//!
//! Every queued key is in two lists: that of its priority, and that of all by age. The head of the
//! highest priority is next, unless it passes over an older one for the eighth time in a row: then
//! the oldest is.

use std::collections::BTreeMap;

use super::shard::Place;
use crate::slab::list::{Links, List};
use crate::slab::{Slab, place_size};

/// Of so many keys taken in a row, at least one is the oldest.
const TURNS: u32 = 8;

struct Node {
    place: Place,
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

/// How far the queue has come. It only goes on from `Open`; between the others it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Nothing is added any more; nobody waits for what is left.
    ShutDown,
    /// Nothing is added any more; somebody waits until all of it is done.
    Draining,
}

/// What there is to take.
pub(super) enum Next {
    Key(Place),
    Empty,
    /// Empty, and it stays so but for keys that are being processed.
    ShutDown,
}

pub(super) struct Line {
    nodes: Slab<Node>,
    /// By priority; none is empty.
    levels: BTreeMap<i32, List>,
    by_age: List,
    /// How many times in a row the oldest was passed over.
    passed_over: u32,
    /// How many keys are being processed: counted here, so that a key is at no moment neither
    /// queued nor counted.
    processing: usize,
    phase: Phase,
}

impl Line {
    pub(super) fn new() -> Self {
        Self {
            nodes: Slab::default(),
            levels: BTreeMap::new(),
            by_age: List::default(),
            passed_over: 0,
            processing: 0,
            phase: Phase::Open,
        }
    }

    /// Appends a key; the number under which it can be [raised](Self::raise).
    pub(super) fn push(&mut self, place: Place, priority: i32) -> u32 {
        let node =
            self.nodes.insert(Node { place, priority, level: Links::NONE, age: Links::NONE });
        self.by_age.push(&mut self.nodes, node, Node::age);
        self.levels.entry(priority).or_default().push(&mut self.nodes, node, Node::level);
        node
    }

    /// Moves a key to the tail of a priority, unless it was just taken: then its number is free,
    /// or another's.
    pub(super) fn raise(&mut self, node: u32, place: Place, priority: i32) {
        if self.nodes.get_mut(node).is_none_or(|found| found.place != place) {
            return;
        }
        self.leave_level(node);
        self.nodes[node].priority = priority;
        self.levels.entry(priority).or_default().push(&mut self.nodes, node, Node::level);
    }

    /// Takes the next key, which counts as being processed from now on.
    pub(super) fn next(&mut self) -> Next {
        let highest = self.levels.last_key_value().and_then(|(_, level)| level.first());
        let (Some(highest), Some(oldest)) = (highest, self.by_age.first()) else {
            return if self.phase == Phase::Open { Next::Empty } else { Next::ShutDown };
        };
        let node = if self.passed_over + 1 < TURNS { highest } else { oldest };
        self.passed_over = if node == oldest { 0 } else { self.passed_over + 1 };
        self.leave_level(node);
        self.by_age.unlink(&mut self.nodes, node, Node::age);
        self.processing += 1;
        Next::Key(self.nodes.remove(node).place)
    }

    /// A key is processed no more. It may be pushed again in the same breath.
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

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn end(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Whether somebody who waits for the end of all work has to go on waiting.
    pub(super) fn is_draining(&self) -> bool {
        self.phase == Phase::Draining && (self.processing > 0 || self.len() > 0)
    }
}
