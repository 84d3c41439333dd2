//! The engines by name, in whichever language they are written.

use std::fmt;

use super::Workload;
use crate::versions::locked;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// This project.
    DeltaFifo,
    /// This project, unchanged objects skipped.
    DeltaFifoSkip,
    /// This project, on one thread.
    DeltaFifoOneThread,
    /// This project, with a lane for live events.
    DeltaFifoLane,
    /// This project, popped key by key.
    DeltaFifoSingle,
    /// The classic design.
    Mutex,
    /// `DashMap` with a lock-free queue.
    DashMap,
    /// The steps of a relist on plain data: the limit.
    Floor,
    /// kube-rs' store, with its usual objects.
    KubeWriter,
    /// kube-rs' store, with objects behind an `Arc`.
    KubeWriterArc,
    /// client-go's classic queue.
    ClientGoDeltaFifo,
    /// client-go's current queue.
    ClientGoRealFifo,
    /// client-go's informer.
    ClientGoInformer,
}

impl EngineName {
    /// All engines, in the order of the tables.
    pub const ALL: [Self; 13] = [
        Self::DeltaFifo,
        Self::DeltaFifoSkip,
        Self::DeltaFifoOneThread,
        Self::DeltaFifoLane,
        Self::DeltaFifoSingle,
        Self::Mutex,
        Self::DashMap,
        Self::Floor,
        Self::KubeWriter,
        Self::KubeWriterArc,
        Self::ClientGoDeltaFifo,
        Self::ClientGoRealFifo,
        Self::ClientGoInformer,
    ];

    /// Returns the name on the command line and in every table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeltaFifo => "deltafifo",
            Self::DeltaFifoSkip => "deltafifo-skip",
            Self::DeltaFifoOneThread => "deltafifo-1-thread",
            Self::DeltaFifoLane => "deltafifo-lane",
            Self::DeltaFifoSingle => "deltafifo-single",
            Self::Mutex => "mutex",
            Self::DashMap => "dashmap",
            Self::Floor => "floor",
            Self::KubeWriter => "kube-writer",
            Self::KubeWriterArc => "kube-writer-arc",
            Self::ClientGoDeltaFifo => "client-go-deltafifo",
            Self::ClientGoRealFifo => "client-go-realfifo",
            Self::ClientGoInformer => "client-go-informer",
        }
    }

    /// Returns whether this binary can measure the engine.
    #[must_use]
    pub fn is_built(self) -> bool {
        cfg!(feature = "peers") || !matches!(self, Self::KubeWriter | Self::KubeWriterArc)
    }

    /// Returns whether the engine is written in Go.
    #[must_use]
    pub fn is_go(self) -> bool {
        matches!(self, Self::ClientGoDeltaFifo | Self::ClientGoRealFifo | Self::ClientGoInformer)
    }

    /// Returns whether the engine notifies a handler. kube-rs' store has no deltas.
    #[must_use]
    pub fn makes_deltas(self) -> bool {
        !matches!(self, Self::KubeWriter | Self::KubeWriterArc)
    }

    /// Returns whether the engine can run a workload, and differs in it from the engine of which it
    /// is a variant. The floor and kube-rs' store have no queue and no index. The floor cannot be
    /// read while it is written. An informer's relists are paced by its own pauses. Engines of one
    /// family have the same store and the same work queue.
    #[must_use]
    pub fn can(self, workload: Workload) -> bool {
        match workload {
            Workload::Queries => {
                matches!(
                    self,
                    Self::DeltaFifo | Self::Mutex | Self::DashMap | Self::ClientGoDeltaFifo
                )
            }
            Workload::WorkQueue => {
                matches!(self, Self::DeltaFifo | Self::Mutex | Self::ClientGoDeltaFifo)
            }
            _ => match self {
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

    /// Returns a description with the versions of the engine's parts. The process of a client-go
    /// engine reports its versions itself.
    #[must_use]
    pub fn description(self) -> String {
        match self {
            Self::DeltaFifo => format!(
                "deltafifo {}: queue fused with its store; work queue of deltafifo-informer {}",
                locked("deltafifo"),
                locked("deltafifo-informer")
            ),
            Self::DeltaFifoSkip => {
                format!("deltafifo {}: the same, unchanged objects skipped", locked("deltafifo"))
            }
            Self::DeltaFifoOneThread => {
                format!("deltafifo {}: the same on one thread", locked("deltafifo"))
            }
            Self::DeltaFifoLane => {
                format!(
                    "deltafifo {}: the same, live events pass the backlog of relists",
                    locked("deltafifo")
                )
            }
            Self::DeltaFifoSingle => {
                format!("deltafifo {}: the same, popped key by key", locked("deltafifo"))
            }
            Self::Mutex => format!(
                "the classic design in Rust: parking_lot {}, hashbrown {}, foldhash {}",
                locked("parking_lot"),
                locked("hashbrown"),
                locked("foldhash")
            ),
            Self::DashMap => format!(
                "dashmap {} of deltas and as store, SegQueue of crossbeam {}, foldhash {}",
                locked("dashmap"),
                locked("crossbeam"),
                locked("foldhash")
            ),
            Self::Floor => {
                format!(
                    "the steps of a relist on plain data, one thread, foldhash {}: the limit",
                    locked("foldhash")
                )
            }
            Self::KubeWriter => format!(
                "kube-runtime {}: reflector Writer, each object cloned as it does; a store only, it makes no deltas",
                locked("kube-runtime")
            ),
            Self::KubeWriterArc => {
                format!(
                    "kube-runtime {}: the same, objects behind an Arc: its best case",
                    locked("kube-runtime")
                )
            }
            Self::ClientGoDeltaFifo => "client-go's DeltaFIFO, indexer and work queue".to_owned(),
            Self::ClientGoRealFifo => {
                "client-go's RealFIFO and indexer, as today's informers set it".to_owned()
            }
            Self::ClientGoInformer => "client-go's shared informer with its defaults".to_owned(),
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
