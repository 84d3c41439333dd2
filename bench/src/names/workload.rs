//! The workloads by name.

use std::fmt;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// An empty engine gets a list; ends when the handler has seen all objects.
    Initial,
    /// An engine that knows all objects gets the same list again.
    Relist,
    /// A relist with 1 % deleted objects, 1 % new ones, and 10 % with a new version.
    Churn,
    /// Updates through a filled engine.
    Events,
    /// Updates at fixed times during back-to-back relists.
    Stall,
    /// Gets of single keys during back-to-back relists.
    Readers,
    /// Objects looked up by an index.
    Queries,
    /// Updates for a slow handler.
    SlowHandler,
    /// Keys through the work queue behind the cache.
    WorkQueue,
    /// Memory for each key.
    Memory,
}

impl Workload {
    /// All workloads, in the order in which they run.
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

    /// Returns the name on the command line and in every table.
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

    /// Returns whether this binary can measure the workload.
    #[must_use]
    pub fn is_built(self) -> bool {
        cfg!(feature = "peers") || self != Self::WorkQueue
    }

    /// Returns whether the workload consists of lists only.
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
