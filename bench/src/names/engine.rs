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
        /// This project's informer, without managed fields.
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
        let is_kube = matches!(self, Self::KubeWriter | Self::KubeWriterArc);
        cfg!(feature = "peers") || !(is_kube || self.is_cache_only())
    }

    /// Returns whether the engine runs only the workload [`Cache`](super::Workload::Cache).
    pub fn is_cache_only(self) -> bool {
        matches!(
            self,
            Self::DeltaFifoWithout
                | Self::DeltaFifoCompact
                | Self::DeltaFifoCompactValidated
                | Self::Gzip
                | Self::Cbor
                | Self::ClientGoUnstructured
        )
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
    /// The floor and kube-rs' store have no queue and no index: of the workload `queries`, kube-rs'
    /// store runs the variant that scans. The floor cannot be read while it is written. An informer
    /// cannot relist back to back, because it pauses between relists. Engines of one family have
    /// the same store and the same work queue.
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
                Self::Floor | Self::DeltaFifoOneThread => workload.is_list(),
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
        let [ours, foldhash, kube] = ["deltafifo", "foldhash", "kube-runtime"].map(locked);
        let variant_of_ours =
            |difference: &str| format!("deltafifo {ours}: the same, {difference}");
        match self {
            Self::DeltaFifo => {
                let informer = locked("deltafifo-informer");
                format!(
                    "deltafifo {ours}: queue fused with its store; \
                     work queue of deltafifo-informer {informer}"
                )
            }
            Self::DeltaFifoSkip => variant_of_ours("unchanged objects skipped"),
            Self::DeltaFifoOneThread => variant_of_ours("on one thread"),
            Self::DeltaFifoLane => variant_of_ours("live events pass the backlog of relists"),
            Self::DeltaFifoSingle => variant_of_ours("popped key by key"),
            Self::Mutex => {
                let [parking_lot, hashbrown] = ["parking_lot", "hashbrown"].map(locked);
                format!(
                    "the classic design in Rust: \
                     parking_lot {parking_lot}, hashbrown {hashbrown}, foldhash {foldhash}"
                )
            }
            Self::DashMap => {
                let [dashmap, crossbeam] = ["dashmap", "crossbeam"].map(locked);
                format!(
                    "dashmap {dashmap} of deltas and as store, SegQueue of crossbeam {crossbeam}, \
                     foldhash {foldhash}"
                )
            }
            Self::Floor => format!(
                "the steps of a relist on plain data, one thread, foldhash {foldhash}: the limit"
            ),
            Self::KubeWriter => format!(
                "kube-runtime {kube}: reflector Writer, which clones each object; a store only, \
                 without deltas"
            ),
            Self::KubeWriterArc => {
                format!("kube-runtime {kube}: the same, objects behind an Arc: its best case")
            }
            Self::ClientGoDeltaFifo => "client-go's DeltaFIFO, indexer and work queue".to_owned(),
            Self::ClientGoRealFifo => {
                "client-go's RealFIFO and indexer, as today's informers set it".to_owned()
            }
            Self::ClientGoInformer => "client-go's shared informer with its defaults".to_owned(),
            Self::DeltaFifoWithout => variant_of_ours("informer without managed fields"),
            Self::DeltaFifoCompact => variant_of_ours("informer of compact objects"),
            Self::DeltaFifoCompactValidated => {
                variant_of_ours("informer of compact objects, each decoded when it is stored")
            }
            Self::Gzip => format!(
                "objects packed with gzip, as Argo CD does: flate2 {}, store of deltafifo {ours}",
                locked("flate2")
            ),
            Self::Cbor => format!(
                "objects as CBOR, as proposed for client-go: ciborium {}, store of deltafifo {ours}",
                locked("ciborium")
            ),
            Self::ClientGoUnstructured => {
                "client-go's shared informer of unstructured objects".to_owned()
            }
        }
    }
}
