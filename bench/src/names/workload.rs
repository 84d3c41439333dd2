//! The workloads by name.

super::named! {
    /// A workload, in the order in which they run.
    Workload {
        /// An empty engine gets a list; ends when the handler has seen all objects.
        Initial = "initial",
        /// An engine that knows all objects gets the same list again.
        Relist = "relist",
        /// A relist with 1 % deleted objects, 1 % new ones, and 10 % with a new version.
        Churn = "churn",
        /// Updates through a filled engine.
        Events = "events",
        /// Updates at fixed times during back-to-back relists.
        Stall = "stall",
        /// Gets of single keys during back-to-back relists.
        Readers = "readers",
        /// Objects looked up by an index.
        Queries = "queries",
        /// Updates for a slow handler.
        SlowHandler = "slow-handler",
        /// Keys through the work queue behind the cache.
        WorkQueue = "workqueue",
        /// Memory for each key.
        Memory = "memory",
        /// The objects of a cluster in an informer: memory, lists and gets.
        Cache = "cache",
    }
}

impl Workload {
    /// Returns whether this binary can measure the workload.
    pub fn is_built(self) -> bool {
        cfg!(feature = "peers") || !matches!(self, Self::WorkQueue | Self::Cache)
    }

    /// Returns whether the workload has a run of its own: its objects are not those of the others.
    pub fn is_separate(self) -> bool {
        self == Self::Cache
    }

    /// Returns whether the workload consists of lists only.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Initial | Self::Relist | Self::Churn)
    }
}
