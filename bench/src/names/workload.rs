//! Every workload by its name.

use std::fmt;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Everything empty; a list, until the handler has seen all.
    Initial,
    /// All known; the same list again.
    Relist,
    /// 1 % gone, 1 % new, 10 % with a new version.
    Churn,
    /// Updates through a filled engine.
    Events,
    /// Updates on time while relists go on back to back.
    Stall,
    /// Gets of single keys while relists go on back to back.
    Readers,
    /// Objects found by an index.
    Queries,
    /// Updates for a handler that takes its time.
    SlowHandler,
    /// Keys through the work queue behind the cache.
    WorkQueue,
    /// What a key costs.
    Memory,
}

impl Workload {
    /// All of them, in the order they are run.
    pub const ALL: [Self; 10] = [
        Self::Initial,
        Self::Relist,
        Self::Churn,
        Self::Events,
        Self::Stall,
        Self::Readers,
        Self::Queries,
        Self::SlowHandler,
        Self::WorkQueue,
        Self::Memory,
    ];

    /// The name on the command line and in every table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Relist => "relist",
            Self::Churn => "churn",
            Self::Events => "events",
            Self::Stall => "stall",
            Self::Readers => "readers",
            Self::Queries => "queries",
            Self::SlowHandler => "slow-handler",
            Self::WorkQueue => "workqueue",
            Self::Memory => "memory",
        }
    }

    /// Whether this binary can measure it.
    #[must_use]
    pub fn is_built(self) -> bool {
        cfg!(feature = "peers") || self != Self::WorkQueue
    }

    /// Whether it only takes lists.
    #[must_use]
    pub fn is_list(self) -> bool {
        matches!(self, Self::Initial | Self::Relist | Self::Churn)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
