//! The workloads by name.

super::named! {
    /// A workload. The order of the variants is the order in which they run.
    Workload {
        /// Lists all objects into an empty engine; ends when the handler has seen all of them.
        Initial = "initial",
        /// Lists the objects again into an engine that knows all of them.
        Relist = "relist",
        /// Relists with 1 % deleted objects, 1 % new ones, and 10 % with a new version.
        Churn = "churn",
        /// Updates objects through a filled engine.
        Events = "events",
        /// Updates objects at fixed times during back-to-back relists.
        Stall = "stall",
        /// Gets single keys during back-to-back relists.
        Readers = "readers",
        /// Looks up objects by an index, and selects objects by labels.
        Queries = "queries",
        /// Updates objects while the handler is slow.
        SlowHandler = "slow-handler",
        /// Passes keys through a work queue.
        WorkQueue = "workqueue",
        /// Measures the memory for each key.
        Memory = "memory",
        /// Measures an informer with the objects of a cluster: memory, lists and gets.
        Cache = "cache",
    }
}

impl Workload {
    /// Returns whether this binary can measure the workload.
    pub fn is_built(self) -> bool {
        cfg!(feature = "peers") || !matches!(self, Self::WorkQueue | Self::Cache)
    }

    /// Returns whether the workload must be run by itself, because its objects are not those of
    /// the other workloads.
    pub fn is_separate(self) -> bool {
        self == Self::Cache
    }

    /// Returns whether the workload consists of lists only.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Initial | Self::Relist | Self::Churn)
    }

    /// Returns the workload that identifies the process in which this one runs. The lists share a
    /// process, because each begins with the result of the one before. Every other workload has a
    /// process of its own: an engine may be slower after other work in its process
    /// (`bench/LOG.md`).
    pub fn process(self) -> Self {
        if self.is_list() { Self::Initial } else { self }
    }
}
