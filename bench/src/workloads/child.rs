//! The child process. It runs the requested workloads on one engine, and prints the rows to
//! standard output.

#[cfg(feature = "peers")]
use std::sync::Arc;

#[cfg(feature = "peers")]
use deltafifo_classic::MutexWorkQueue;

use super::fill::ChildError;
use super::footprint::{self, OfferFn};
use super::lists::{Lists, run_owned};
use super::queries::{self, Selection};
#[cfg(feature = "peers")]
use super::{cache, workqueue};
use super::{events, readers, slow_handler, stall};
#[cfg(feature = "peers")]
use crate::data::Pods;
use crate::data::{Generated, Source};
use crate::engines::dashmap::DashMapEngine;
use crate::engines::deltafifo::DeltaFifoEngine;
use crate::engines::floor::{Floor, Walk};
#[cfg(feature = "peers")]
use crate::engines::kube_writer::{KubeWriterEngine, Owned};
use crate::engines::mutex_engine::MutexEngine;
use crate::engines::{IndexEngine, ListEngine, QueueEngine, SelectorEngine, StoreEngine};
use crate::names::{EngineName, Workload};
use crate::protocol::{ChildArgs, Done, Line, Row, output};

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
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::new)?;
            run_index(args, source, DeltaFifoEngine::<_, _, false>::with_nodes)?;
            let with_apps = DeltaFifoEngine::<_, _, false>::with_apps;
            run_selection(args, source, &Selection::INDEXED, with_apps)?;
            let without = DeltaFifoEngine::<_, _, false>::new;
            run_selection(args, source, &Selection::SCAN, without)?;
            #[cfg(feature = "peers")]
            workqueue::run(args, source, workqueue::ours)?;
        }
        EngineName::DeltaFifoSkip => {
            run_queue(args, source, DeltaFifoEngine::<_, _, true>::new)?;
        }
        EngineName::DeltaFifoOneThread => {
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::one_thread)?;
        }
        EngineName::DeltaFifoLane => {
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::with_lane)?;
        }
        EngineName::DeltaFifoSingle => {
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::single)?;
        }
        EngineName::Mutex => {
            run_queue(args, source, MutexEngine::new)?;
            run_index(args, source, MutexEngine::with_nodes)?;
            run_selection(args, source, &Selection::INDEXED, MutexEngine::with_apps)?;
            #[cfg(feature = "peers")]
            workqueue::run(args, source, MutexWorkQueue::new)?;
        }
        EngineName::DashMap => {
            run_queue(args, source, DashMapEngine::new)?;
            run_index(args, source, DashMapEngine::with_nodes)?;
        }
        EngineName::Floor => run_floor(args, source)?,
        #[cfg(feature = "peers")]
        EngineName::KubeWriter => {
            let new = KubeWriterEngine::<Owned<_>, S::Meta>::default;
            run_store(args, source, new, None)?;
            run_selection(args, source, &Selection::SCAN, |_| new())?;
        }
        #[cfg(feature = "peers")]
        EngineName::KubeWriterArc => {
            let new = KubeWriterEngine::<Arc<_>, S::Meta>::default;
            run_store(args, source, new, None)?;
            run_selection(args, source, &Selection::SCAN, |_| new())?;
        }
        other => return Err(format!("{other} is not an engine of this process").into()),
    }
    Ok(output::line(&Line::Done(Done { version: args.engine.description() }))?)
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
        run_lists(args, source, new())?;
    }
    if args.includes(Workload::Readers) {
        readers::run(args, source, &new())?;
    }
    if args.includes(Workload::Memory) {
        footprint::run(args, source, new, offer)?;
    }
    Ok(())
}

/// Runs the variants of the workload `queries` that look up values of an index. `new` creates an
/// engine with an index by node; the other workloads use engines without it.
fn run_index<S: Source, E: IndexEngine<S::Object> + QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn(S::Meta) -> E,
) -> Result<(), ChildError> {
    if args.includes(Workload::Queries) { queries::run(args, source, new) } else { Ok(()) }
}

/// Runs a variant of the workload `queries` with label selectors. `new` creates an engine with the
/// indexes of the variant.
fn run_selection<S: Source, E: SelectorEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    selection: &Selection,
    new: impl Fn(S::Meta) -> E,
) -> Result<(), ChildError> {
    if args.includes(Workload::Queries) { selection.run(args, source, new) } else { Ok(()) }
}

fn run_lists<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    engine: E,
) -> Result<(), ChildError> {
    let lists = Lists::build(args, source)?;
    output::rows(lists.run::<S, _>(args, &engine)?)?;
    if E::OWNS_LISTS && args.settings.owned && args.includes(Workload::Relist) {
        output::rows([run_owned(args, source, &engine)?])?;
    }
    leak((lists, engine));
    Ok(())
}

/// Runs the engine `floor` (`engines/floor.rs`) once with each of its two walks through a list,
/// and prints the row of the faster walk for each workload.
fn run_floor<S: Source>(args: &ChildArgs, source: &S) -> Result<(), ChildError> {
    let lists = Lists::build(args, source)?;
    let run = |walk| lists.run::<S, _>(args, &Floor::new(S::Meta::default(), walk));
    let (in_order, partitioned) = (run(Walk::InOrder)?, run(Walk::Partitioned)?);
    let faster = |(in_order, partitioned): (Row, Row)| {
        // The whole row is taken, so that its memory and its results also belong to the faster
        // walk.
        let (mut row, walk) = if partitioned.value < in_order.value {
            (partitioned, "partitioned")
        } else {
            (in_order, "in order")
        };
        row.extra.insert("walk".into(), walk.into());
        row
    };
    output::rows(in_order.into_iter().zip(partitioned).map(faster))?;
    leak(lists);
    Ok(())
}

/// Leaks a value. Freeing millions of objects one by one takes long; the end of the process frees
/// them at once.
fn leak<V>(value: V) {
    std::mem::forget(value);
}
