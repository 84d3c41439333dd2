//! Every engine by its name, whatever language it is written in.

use std::fmt;

use super::Workload;
use crate::versions::locked;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// This project.
    DeltaFifo,
    /// The same, unchanged objects skipped.
    DeltaFifoSkip,
    /// The same on one thread.
    DeltaFifoOneThread,
    /// The same with a lane for live events.
    DeltaFifoLane,
    /// The same, popped key by key.
    DeltaFifoSingle,
    /// The classic design.
    Mutex,
    /// The design that people expect to win.
    DashMap,
    /// The limit.
    Floor,
    /// kube-rs' store, objects as they are.
    KubeWriter,
    /// The same, objects behind an `Arc`.
    KubeWriterArc,
    /// client-go's classic queue.
    ClientGoDeltaFifo,
    /// client-go's queue of today.
    ClientGoRealFifo,
    /// client-go's informer.
    ClientGoInformer,
}

impl EngineName {
    /// All of them, in the order of the tables.
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

    /// The name on the command line and in every table.
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

    /// Whether this binary can measure it.
    #[must_use]
    pub fn is_built(self) -> bool {
        cfg!(feature = "peers") || !matches!(self, Self::KubeWriter | Self::KubeWriterArc)
    }

    /// Whether it is written in Go.
    #[must_use]
    pub fn is_go(self) -> bool {
        matches!(self, Self::ClientGoDeltaFifo | Self::ClientGoRealFifo | Self::ClientGoInformer)
    }

    /// Whether its handler is told of anything: kube-rs' store makes no deltas.
    #[must_use]
    pub fn makes_deltas(self) -> bool {
        !matches!(self, Self::KubeWriter | Self::KubeWriterArc)
    }

    /// Whether it can do a workload, and is another engine by it than the one it is a kind of: the
    /// floor and kube-rs' store have no queue and no index, the floor answers nobody while it is
    /// written, the relists of an informer are paced by its own waiting, and the engines of one
    /// family have one store and one work queue.
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

    /// What it is, with the versions of its parts. Those of client-go are told by its process.
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
