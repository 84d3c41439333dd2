//! The workloads initial, relist and churn, in this order and on one engine, because each starts
//! with the result of the one before. For a relist or churn without initial, the initial fill is
//! not measured.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Map;

use super::fill::ChildError;
use super::memory::MemoryMark;
use super::outcome::add_outcome;
use crate::data::{self, ListPlan, Source, added, changed, removed};
use crate::engines::{Counts, ListEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, Output, Row};

/// The lists of a child's workloads. They live to the end of the process, so that no measurement
/// includes the freeing of a list.
pub(super) struct Lists<T>(Vec<(Workload, Vec<Arc<T>>)>);

impl<T: Send + Sync> Lists<T> {
    /// Builds the lists of the requested workloads, and the initial list in any case.
    pub fn build<S: Source<Object = T>>(
        args: &ChildArgs,
        source: &S,
        out: &mut Output,
    ) -> Result<Self, ChildError> {
        let mut lists = Vec::new();
        for workload in [Workload::Initial, Workload::Relist, Workload::Churn] {
            if workload == Workload::Initial || args.includes(workload) {
                out.progress(&format!("building the list of {workload}"))?;
                let churn = workload == Workload::Churn;
                let plan = if churn {
                    ListPlan::churn(args.objects)
                } else {
                    ListPlan::same(args.objects)
                };
                lists.push((workload, data::build(source, &plan)));
            }
        }
        Ok(Self(lists))
    }

    /// Runs the lists on an engine, and returns the rows of the requested workloads.
    pub fn run<S: Source<Object = T>, E: ListEngine<T>>(
        &self,
        args: &ChildArgs,
        engine: &E,
        out: &mut Output,
    ) -> Result<Vec<Row>, ChildError> {
        let mut rows = Vec::new();
        for (at, (workload, list)) in self.0.iter().enumerate() {
            out.progress(workload.name())?;
            let version = (5_000_000 + at).to_string();
            let given = E::List::from(list);

            let (mut row, counts) = measure(args, engine, given, &version, *workload, "")?;
            if args.includes(*workload) {
                add_outcome::<S>(counts, engine, &mut row.extra);
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

/// Measures how long an engine takes for a list and its drain. Returns the row, and the counts of
/// the handler, which must be the expected ones.
pub(super) fn measure<T, E: ListEngine<T>>(
    args: &ChildArgs,
    engine: &E,
    given: E::List,
    version: &str,
    workload: Workload,
    variant: &str,
) -> Result<(Row, Counts), ChildError> {
    let memory = MemoryMark::set(args);
    let start = Instant::now();
    engine.replace(given, version);
    let counts = engine.drain();
    let elapsed = start.elapsed();

    let mut extra = Map::new();
    memory.add_to(&mut extra);
    let expected = expected::<T, E>(workload, args.objects);
    if counts != expected {
        return Err(format!("{workload} {variant}: {counts:?}, expected {expected:?}").into());
    }
    Ok((Row { extra, ..Row::new(workload, variant, "s", elapsed.as_secs_f64()) }, counts))
}

/// Returns the counts that an engine's handler must have.
pub(super) fn expected<T, E: ListEngine<T>>(workload: Workload, objects: usize) -> Counts {
    let same = if E::SKIPS_UNCHANGED { 0 } else { objects };
    match workload {
        _ if !E::MAKES_DELTAS => Counts::default(),
        Workload::Initial => Counts { adds: objects, ..Counts::default() },
        Workload::Churn => Counts {
            adds: added(objects),
            updates: if E::SKIPS_UNCHANGED { changed(objects) } else { same - removed(objects) },
            deletes: removed(objects),
        },
        _ => Counts { updates: same, ..Counts::default() },
    }
}
