//! The engines by name, both those in Rust and those in Go.

use super::Workload;
use crate::versions::locked;

super::named! {
    /// An engine.
    EngineName {
        /// This project.
        DeltaFifo = "deltafifo",
        /// This project, with relists that skip unchanged objects.
        DeltaFifoSkip = "deltafifo-skip",
        /// This project, on one thread.
        DeltaFifoOneThread = "deltafifo-1-thread",
        /// This project, with a lane in which live events pass the backlog of a relist.
        DeltaFifoLane = "deltafifo-lane",
        /// This project, with consumers that pop one key at a time.
        DeltaFifoSingle = "deltafifo-single",
        /// The classic design: a `MutexFifo` over a `MutexStore`.
        Mutex = "mutex",
        /// `DashMap` with a lock-free queue.
        DashMap = "dashmap",
        /// The floor: only the necessary steps of a relist, on plain data. Their time is a lower
        /// limit.
        Floor = "floor",
        /// The floor on two threads.
        FloorTwoThreads = "floor-2-threads",
        /// kube-rs' store, with objects by value, as is usual.
        KubeWriter = "kube-writer",
        /// kube-rs' store, with objects behind an `Arc`.
        KubeWriterArc = "kube-writer-arc",
        /// client-go's classic queue, `DeltaFIFO`.
        ClientGoDeltaFifo = "client-go-deltafifo",
        /// client-go's current queue, `RealFIFO`.
        ClientGoRealFifo = "client-go-realfifo",
        /// client-go's informer.
        ClientGoInformer = "client-go-informer",
        /// This project's informer, without managed fields. It and all engines below run only the
        /// workload `cache`.
        DeltaFifoWithout = "deltafifo-without",
        /// This project's informer of compact objects.
        DeltaFifoCompact = "deltafifo-compact",
        /// This project's informer of compact objects, each decoded when it is stored.
        DeltaFifoCompactValidated = "deltafifo-compact-validated",
        /// A store of objects packed with gzip.
        Gzip = "gzip",
        /// A store of objects as CBOR.
        Cbor = "cbor",
        /// client-go's informer of unstructured objects.
        ClientGoUnstructured = "client-go-unstructured",
    }
}

impl EngineName {
    /// Returns whether this binary can measure the engine.
    pub fn is_built(self) -> bool {
        cfg!(feature = "peers") || (self.makes_deltas() && !self.is_cache_only())
    }

    /// Returns whether the engine runs only the workload [`Cache`](super::Workload::Cache).
    pub fn is_cache_only(self) -> bool {
        self >= Self::DeltaFifoWithout
    }

    /// Returns whether the engine is written in Go.
    pub fn is_go(self) -> bool {
        matches!(
            self,
            Self::ClientGoDeltaFifo
                | Self::ClientGoRealFifo
                | Self::ClientGoInformer
                | Self::ClientGoUnstructured
        )
    }

    /// Returns whether the engine notifies a handler. kube-rs' store has no deltas.
    pub fn makes_deltas(self) -> bool {
        !matches!(self, Self::KubeWriter | Self::KubeWriterArc)
    }

    /// Returns whether the engine can run a workload. A variant of another engine can only run the
    /// workloads in which it differs from that engine.
    ///
    /// The floors and kube-rs' store have no queue and no index: of the workload `queries`,
    /// kube-rs' store runs the variant that scans. The floors cannot be read while they are
    /// written. An informer cannot relist back to back, because it pauses between relists. Engines
    /// of one family have the same store and the same work queue.
    pub fn can(self, workload: Workload) -> bool {
        match workload {
            Workload::Queries => matches!(
                self,
                Self::DeltaFifo
                    | Self::Mutex
                    | Self::DashMap
                    | Self::KubeWriter
                    | Self::KubeWriterArc
                    | Self::ClientGoDeltaFifo
            ),
            Workload::WorkQueue => {
                matches!(self, Self::DeltaFifo | Self::Mutex | Self::ClientGoDeltaFifo)
            }
            Workload::Cache => {
                self.is_cache_only()
                    || matches!(self, Self::DeltaFifo | Self::KubeWriter | Self::ClientGoInformer)
            }
            _ => match self {
                _ if self.is_cache_only() => false,
                Self::Floor | Self::FloorTwoThreads => workload.is_list(),
                Self::DeltaFifoOneThread => workload.is_list() || workload == Workload::Readers,
                Self::DeltaFifoLane => workload == Workload::Stall,
                Self::DeltaFifoSingle => matches!(workload, Workload::Events | Workload::Stall),
                Self::KubeWriter | Self::KubeWriterArc => {
                    workload.is_list() || matches!(workload, Workload::Readers | Workload::Memory)
                }
                Self::ClientGoInformer => workload != Workload::Stall,
                _ => true,
            },
        }
    }

    /// Returns a description with the versions of the engine's parts. For a client-go engine it has
    /// no versions: the engine's process prints them.
    pub fn description(self) -> String {
        // Each `@` stands for the version of the package whose name precedes it.
        let text = match self {
            Self::DeltaFifo => {
                "deltafifo @: queue fused with its store; work queue of deltafifo-informer @"
            }
            Self::DeltaFifoSkip => "deltafifo @: the same, unchanged objects skipped",
            Self::DeltaFifoOneThread => "deltafifo @: the same, on one thread",
            Self::DeltaFifoLane => "deltafifo @: the same, live events pass the backlog of relists",
            Self::DeltaFifoSingle => "deltafifo @: the same, popped key by key",
            Self::Mutex => "the classic design in Rust: parking_lot @, hashbrown @, foldhash @",
            Self::DashMap => {
                "dashmap @ of deltas and as store, SegQueue of crossbeam @, foldhash @"
            }
            Self::Floor => "the steps of a relist on plain data, one thread, foldhash @: the limit",
            Self::FloorTwoThreads => "foldhash @: the same steps on two threads, each with a table",
            Self::KubeWriter => {
                "kube-runtime @: reflector Writer, which clones each object; a store only, \
                 without deltas"
            }
            Self::KubeWriterArc => "kube-runtime @: the same, objects behind an Arc: its best case",
            Self::ClientGoDeltaFifo => "client-go's DeltaFIFO, indexer and work queue",
            Self::ClientGoRealFifo => {
                "client-go's RealFIFO and indexer, as today's informers set it"
            }
            Self::ClientGoInformer => "client-go's shared informer with its defaults",
            Self::DeltaFifoWithout => "deltafifo @: the same, informer without managed fields",
            Self::DeltaFifoCompact => "deltafifo @: the same, informer of compact objects",
            Self::DeltaFifoCompactValidated => {
                "deltafifo @: the same, informer of compact objects, each decoded when it is stored"
            }
            Self::Gzip => {
                "objects packed with gzip, as Argo CD does: flate2 @, store of deltafifo @"
            }
            Self::Cbor => {
                "objects as CBOR, as proposed for client-go: ciborium @, store of deltafifo @"
            }
            Self::ClientGoUnstructured => "client-go's shared informer of unstructured objects",
        };
        let mut parts = text.split('@');
        let mut description = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let package = description.split_whitespace().next_back().unwrap_or_default();
            description = format!("{description}{}{part}", locked(package));
        }
        description
    }
}
