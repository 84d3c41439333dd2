//! The child process. It runs the requested workloads on one engine, and prints the rows to
//! standard output.

#[cfg(feature = "peers")]
use std::sync::Arc;

#[cfg(feature = "peers")]
use deltafifo_classic::MutexWorkQueue;

use super::fill::ChildError;
use super::footprint::{self, OfferFn};
use super::queries::{self, Selection};
#[cfg(feature = "peers")]
use super::{cache, workqueue};
use super::{events, lists, readers, slow_handler, stall};
#[cfg(feature = "peers")]
use crate::data::Pods;
use crate::data::{Generated, Source};
use crate::engines::dashmap::DashMapEngine;
use crate::engines::deltafifo::DeltaFifoEngine;
use crate::engines::floor::{Floor, FloorTwoThreads};
#[cfg(feature = "peers")]
use crate::engines::kube_writer::{KubeWriterEngine, Owned};
use crate::engines::mutex_engine::MutexEngine;
use crate::engines::{QueueEngine, StoreEngine};
use crate::names::{EngineName, Workload};
use crate::protocol::{ChildArgs, Line, output};

/// The engine of this project, whose relists do not skip unchanged objects.
type OwnEngine<T, M> = DeltaFifoEngine<T, M, false>;

/// Runs a child process to its end.
pub fn run(args: &ChildArgs) -> Result<(), ChildError> {
    #[cfg(feature = "peers")]
    if args.includes(Workload::Cache) {
        return cache::run(args);
    }
    #[cfg(feature = "peers")]
    if let Some(path) = &args.settings.input {
        return run_on(args, &Pods::read(path)?);
    }
    run_on(args, &Generated { objects: args.objects })
}

fn run_on<S: Source>(args: &ChildArgs, source: &S) -> Result<(), ChildError> {
    match args.engine {
        EngineName::DeltaFifo => {
            run_queue(args, source, OwnEngine::new)?;
            queries::run(args, source, OwnEngine::with_nodes)?;
            readers::run_index(args, source, OwnEngine::with_nodes)?;
            Selection::INDEXED.run(args, source, OwnEngine::with_apps)?;
            Selection::SCAN.run(args, source, OwnEngine::new)?;
            #[cfg(feature = "peers")]
            workqueue::run(args, source, workqueue::ours)?;
        }
        EngineName::DeltaFifoSkip => run_queue(args, source, DeltaFifoEngine::<_, _, true>::new)?,
        EngineName::DeltaFifoOneThread => run_queue(args, source, OwnEngine::one_thread)?,
        EngineName::DeltaFifoLane => run_queue(args, source, OwnEngine::with_lane)?,
        EngineName::DeltaFifoSingle => run_queue(args, source, OwnEngine::single)?,
        EngineName::Mutex => {
            run_queue(args, source, MutexEngine::new)?;
            queries::run(args, source, MutexEngine::with_nodes)?;
            readers::run_index(args, source, MutexEngine::with_nodes)?;
            Selection::INDEXED.run(args, source, MutexEngine::with_apps)?;
            #[cfg(feature = "peers")]
            workqueue::run(args, source, MutexWorkQueue::new)?;
        }
        EngineName::DashMap => {
            run_queue(args, source, DashMapEngine::new)?;
            queries::run(args, source, DashMapEngine::with_nodes)?;
            readers::run_index(args, source, DashMapEngine::with_nodes)?;
        }
        EngineName::Floor => lists::run(args, source, Floor::new(S::Meta::default()))?,
        EngineName::FloorTwoThreads => {
            lists::run(args, source, FloorTwoThreads::new(S::Meta::default()))?;
        }
        #[cfg(feature = "peers")]
        EngineName::KubeWriter => {
            let new = KubeWriterEngine::<Owned<_>, S::Meta>::default;
            run_store(args, source, new, None)?;
            Selection::SCAN.run(args, source, |_| new())?;
        }
        #[cfg(feature = "peers")]
        EngineName::KubeWriterArc => {
            let new = KubeWriterEngine::<Arc<_>, S::Meta>::default;
            run_store(args, source, new, None)?;
            Selection::SCAN.run(args, source, |_| new())?;
        }
        other => return Err(format!("{other} is not an engine of this process").into()),
    }
    Ok(output::line(&Line::Done { version: args.engine.description() })?)
}

fn run_queue<S: Source, E: QueueEngine<S::Object> + StoreEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn(S::Meta) -> E,
) -> Result<(), ChildError> {
    let new = || new(S::Meta::default());
    run_store(args, source, new, Some(E::update))?;
    if args.includes(Workload::Events) {
        events::run(args, source, new)?;
    }
    if args.includes(Workload::Stall) {
        stall::run(args, source, new)?;
    }
    if args.includes(Workload::SlowHandler) {
        slow_handler::run(args, source, new)?;
    }
    Ok(())
}

/// Runs the workloads that need no queue. `offer` offers an update to the engine; it is `None` for
/// an engine without a queue.
fn run_store<S: Source, E: StoreEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
    offer: Option<OfferFn<E, S::Object>>,
) -> Result<(), ChildError> {
    if args.settings.workloads.iter().any(|workload| workload.is_list()) {
        lists::run(args, source, new())?;
    }
    if args.includes(Workload::Readers) {
        readers::run(args, source, &new())?;
    }
    if args.includes(Workload::Memory) {
        footprint::run(args, source, new, offer)?;
    }
    Ok(())
}
