//! The child process: it runs the requested workloads on one engine, and prints the rows to
//! standard output.

use super::fill::ChildError;
use super::footprint::{self, Offer};
use super::lists::Lists;
#[cfg(feature = "peers")]
use super::workqueue;
use super::{events, owned, queries, readers, slow_handler, stall};
#[cfg(feature = "peers")]
use crate::data::Pods;
use crate::data::{Generated, Source};
use crate::engines::dashmap::DashMapEngine;
use crate::engines::deltafifo::DeltaFifoEngine;
use crate::engines::floor::{Floor, InOrder, Partitioned};
#[cfg(feature = "peers")]
use crate::engines::kube_writer::{KubeWriterEngine, Owned, Shared};
use crate::engines::mutex_engine::MutexEngine;
#[cfg(feature = "peers")]
use crate::engines::mutex_workqueue::MutexWorkQueue;
use crate::engines::{IndexEngine, ListEngine, QueueEngine, StoreEngine};
use crate::names::{EngineName, Workload};
use crate::protocol::{ChildArgs, Done, Line, Output};

/// Runs a child process to its end.
///
/// # Errors
/// If the input cannot be used, an engine counts wrongly, or the reader of the output is gone.
pub fn run(args: &ChildArgs) -> Result<(), ChildError> {
    #[cfg(feature = "peers")]
    if let Some(path) = &args.input {
        return run_on(args, &Pods::read(path)?);
    }
    run_on(args, &Generated { objects: args.objects })
}

fn run_on<S: Source>(args: &ChildArgs, source: &S) -> Result<(), ChildError> {
    let meta = S::Meta::default();
    let mut out = Output::new();
    match args.engine {
        EngineName::DeltaFifo => {
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::new, &mut out)?;
            run_index(args, source, DeltaFifoEngine::<_, _, false>::with_nodes, &mut out)?;
            #[cfg(feature = "peers")]
            workqueue::run(args, source, workqueue::ours, &mut out)?;
        }
        EngineName::DeltaFifoSkip => {
            run_queue(args, source, DeltaFifoEngine::<_, _, true>::new, &mut out)?;
        }
        EngineName::DeltaFifoOneThread => {
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::one_thread, &mut out)?;
        }
        EngineName::DeltaFifoLane => {
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::with_lane, &mut out)?;
        }
        EngineName::DeltaFifoSingle => {
            run_queue(args, source, DeltaFifoEngine::<_, _, false>::single, &mut out)?;
        }
        EngineName::Mutex => {
            run_queue(args, source, MutexEngine::new, &mut out)?;
            run_index(args, source, MutexEngine::with_nodes, &mut out)?;
            #[cfg(feature = "peers")]
            workqueue::run(args, source, MutexWorkQueue::new, &mut out)?;
        }
        EngineName::DashMap => {
            run_queue(args, source, DashMapEngine::new, &mut out)?;
            run_index(args, source, DashMapEngine::with_nodes, &mut out)?;
        }
        EngineName::Floor => {
            let lists = Lists::build(args, source, &mut out)?;
            let in_order = Floor::<_, _, InOrder>::new(meta);
            let partitioned = Floor::<_, _, Partitioned>::new(meta);
            let rows = lists.run::<S, _>(args, &in_order, &mut out)?;
            drop(in_order);
            for (row, other) in
                rows.into_iter().zip(lists.run::<S, _>(args, &partitioned, &mut out)?)
            {
                // The whole row is taken, so that its memory and its results are those of the
                // faster walk.
                let (mut row, walk) = if other.value < row.value {
                    (other, "partitioned")
                } else {
                    (row, "in order")
                };
                row.extra.insert("walk".into(), walk.into());
                out.line(&Line::Row(row))?;
            }
            leak(lists);
        }
        #[cfg(feature = "peers")]
        EngineName::KubeWriter => {
            run_store(
                args,
                source,
                KubeWriterEngine::<Owned<S::Object>, S::Meta>::new,
                None,
                &mut out,
            )?;
        }
        #[cfg(feature = "peers")]
        EngineName::KubeWriterArc => {
            run_store(
                args,
                source,
                KubeWriterEngine::<Shared<S::Object>, S::Meta>::new,
                None,
                &mut out,
            )?;
        }
        go => return Err(format!("{go} is not an engine of this process").into()),
    }
    Ok(out.line(&Line::Done(Done { version: args.engine.description() }))?)
}

fn run_queue<S: Source, E: QueueEngine<S::Object> + StoreEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn(S::Meta) -> E,
    out: &mut Output,
) -> Result<(), ChildError> {
    let new = || new(S::Meta::default());
    run_store(args, source, new, Some(E::update), out)?;
    if args.includes(Workload::Events) {
        events::run(args, source, new, out)?;
    }
    if args.includes(Workload::Stall) {
        stall::run(args, source, new, out)?;
    }
    if args.includes(Workload::SlowHandler) {
        slow_handler::run(args, source, new, out)?;
    }
    Ok(())
}

/// Runs the workloads that need no queue. `offer` is how an engine with a queue takes an update.
fn run_store<S: Source, E: StoreEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
    offer: Option<Offer<E, S::Object>>,
    out: &mut Output,
) -> Result<(), ChildError> {
    if args.workloads.iter().any(|workload| workload.is_list()) {
        run_lists(args, source, new(), out)?;
    }
    if args.includes(Workload::Readers) {
        readers::run(args, source, &new(), out)?;
    }
    if args.includes(Workload::Memory) {
        footprint::run(args, source, new, offer, out)?;
    }
    Ok(())
}

/// Runs the workloads that need an index. `new` creates an engine with an index by node; the other
/// workloads use engines without it.
fn run_index<S: Source, E: IndexEngine<S::Object> + QueueEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn(S::Meta) -> E,
    out: &mut Output,
) -> Result<(), ChildError> {
    if args.includes(Workload::Queries) { queries::run(args, source, new, out) } else { Ok(()) }
}

fn run_lists<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    engine: E,
    out: &mut Output,
) -> Result<(), ChildError> {
    let lists = Lists::build(args, source, out)?;
    for row in lists.run::<S, _>(args, &engine, out)? {
        out.line(&Line::Row(row))?;
    }
    if E::OWNS_LISTS && args.owned && args.includes(Workload::Relist) {
        let row = owned::run(args, source, &engine, out)?;
        out.line(&Line::Row(row))?;
    }
    leak((lists, engine));
    Ok(())
}

/// Leaks a value. The end of the process frees millions of objects at once.
fn leak<V>(value: V) {
    std::mem::forget(value);
}
