//! The record of a simulation: facts, each with its time.
//!
//! Machines take turns of some milliseconds, so facts are not recorded in the order of their times.
//! The rules are checked when the history has ended.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;

/// A hold of a member on a shard: the uid of the shard's Lease, and its transitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure {
    pub uid: String,
    pub transitions: i32,
}

/// An object: its key, and its uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    pub key: String,
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// A reconcile has begun. It sees this version.
    Begun {
        work: Work,
        version: u64,
        shard: u8,
        tenure: Tenure,
        member: String,
    },
    /// The future of a reconcile was dropped. It had succeeded if `is_complete`.
    Dropped {
        work: Work,
        is_complete: bool,
    },
    /// A machine has sent a write of a reconcile.
    Sent {
        machine: usize,
        tenure: Tenure,
        member: String,
    },
    /// The server has applied a write of a reconcile.
    Applied {
        tenure: Tenure,
        object: Object,
        version: u64,
    },
    /// A machine has received the answer to an applied write of a reconcile.
    Answered {
        tenure: Tenure,
        object: Object,
        version: u64,
    },
    /// An object was deleted. The stores of these machines had it.
    Deleted {
        object: Object,
        stored_by: Vec<usize>,
    },
    /// A machine has received a list of the metadata of all objects, which the server made at this
    /// time.
    Listed {
        machine: usize,
        at: Duration,
    },
    /// The server has applied a write of a member's Lease by that member, sent at this time.
    Renewed {
        machine: usize,
        member: String,
        sent: Duration,
    },
    /// The server has applied a claim of a shard.
    Claimed {
        shard: String,
        tenure: Tenure,
        member: String,
    },
    /// The server has applied a release of a shard.
    Released {
        shard: String,
        tenure: Tenure,
    },
    Suspended {
        machine: usize,
    },
    Resumed {
        machine: usize,
    },
    /// Something that concerns no rule.
    Note(String),
    /// A rule is violated.
    Violation(String),
}

/// A reconcile: its machine, its object, and the time of its begin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    pub machine: usize,
    pub object: Object,
    pub begun: Duration,
}

/// A record of facts. Clones share it.
#[derive(Clone, Default)]
pub struct History {
    facts: Arc<Mutex<Vec<(Duration, Fact)>>>,
    works: InProgress,
}

/// Work that is in progress until this is dropped.
pub type InProgress = Arc<()>;

impl History {
    pub fn record(&self, at: Duration, fact: Fact) {
        self.facts.lock().push((at, fact));
    }

    /// Records that work is in progress until the result is dropped.
    pub fn begin_work(&self) -> InProgress {
        Arc::clone(&self.works)
    }

    pub fn has_work(&self) -> bool {
        // Each clone of the history has one.
        Arc::strong_count(&self.works) > Arc::strong_count(&self.facts)
    }

    pub fn note(&self, at: Duration, note: impl Into<String>) {
        self.record(at, Fact::Note(note.into()));
    }

    pub fn violation(&self, at: Duration, violation: impl Into<String>) {
        self.record(at, Fact::Violation(violation.into()));
    }

    /// Returns the facts in the order of their times. Facts of one time are in a fixed order, which
    /// does not depend on the order in which a machine runs tasks that are due at the same time.
    pub fn facts(&self) -> Vec<(Duration, Fact)> {
        let mut facts = self.facts.lock().clone();
        facts.sort();
        facts
    }
}

/// Returns one line for each fact.
pub fn trace(facts: &[(Duration, Fact)]) -> String {
    facts.iter().fold(String::new(), |mut lines, (at, fact)| {
        let _ = match fact {
            Fact::Note(note) => writeln!(lines, "{:9.3} {note}", at.as_secs_f64()),
            fact => writeln!(lines, "{:9.3} {fact:?}", at.as_secs_f64()),
        };
        lines
    })
}
