//! The workloads `initial`, `relist` and `churn`. They run in this order on one engine, because
//! each starts with the result of the one before. If only `relist` or `churn` is requested, the
//! initial fill runs without being measured.

use std::time::Instant;

use super::fill::{ChildError, relist};
use super::memory::MemoryMark;
use super::outcome::{add_outcome, expect};
use crate::data::{ListPlan, Source, added, build, changed, removed};
use crate::engines::{Counts, ListEngine};
use crate::names::{EngineName, Workload};
use crate::protocol::{ChildArgs, Row, output};

/// Runs the workloads on an engine, each with its list, and prints the rows of the requested ones.
pub(super) fn run<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    engine: E,
) -> Result<(), ChildError> {
    let (mut lists, mut rows) = (Vec::new(), Vec::new());
    for workload in [Workload::Initial, Workload::Relist, Workload::Churn] {
        if workload == Workload::Initial || args.includes(workload) {
            output::progress(format!("building the list of {workload}"))?;
            let is_churn = workload == Workload::Churn;
            let plan = if is_churn { ListPlan::churn } else { ListPlan::same };
            lists.push((workload, build(source, &plan(args.objects))));
        }
    }
    for (at, (workload, list)) in lists.iter().enumerate() {
        output::progress(workload.name())?;
        let (given, version) = (E::List::from(list), (5_000_000 + at).to_string());
        let row = measure::<S, _>(args, &engine, given, &version, *workload, "")?;
        rows.extend(args.includes(*workload).then_some(row));
    }
    output::rows(rows)?;
    if E::OWNS_LISTS && args.settings.owned && args.includes(Workload::Relist) {
        output::rows([run_owned(args, source, &engine)?])?;
    }
    // The lists are kept so far, so that no measurement includes the freeing of a list. They are
    // leaked, because freeing millions of objects one by one takes long. The end of the process
    // frees them at once.
    std::mem::forget((lists, engine));
    Ok(())
}

/// Gives the engine a list that only the engine holds, and measures a relist with another list:
/// handling the new objects frees the old ones.
fn run_owned<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    engine: &E,
) -> Result<Row, ChildError> {
    output::progress("relist owned")?;
    relist(engine, E::List::from(&build(source, &ListPlan::same(args.objects))));
    let given = E::List::from(&build(source, &ListPlan::same(args.objects)));
    measure::<S, _>(args, engine, given, "6000001", Workload::Relist, "owned")
}

/// Measures how long an engine takes to list and to drain. The counts of the handler must be the
/// expected ones.
fn measure<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    engine: &E,
    given: E::List,
    version: &str,
    workload: Workload,
    variant: &str,
) -> Result<Row, ChildError> {
    let memory = MemoryMark::set(args);
    let start = Instant::now();
    engine.replace(given, version);
    let counts = engine.drain();
    let elapsed = start.elapsed();

    let mut extra = memory.fields();
    if args.engine == EngineName::Floor {
        // The floor has only this way of walking a list. Earlier rows have the field as well, so it
        // remains for scripts that read rows.
        extra.insert("walk".into(), "in order".into());
    }
    let expected = expected::<S::Object, E>(workload, args.objects);
    expect(format_args!("{workload} {variant}"), counts, expected)?;
    add_outcome::<S>(counts, engine, &mut extra);
    Ok(Row { extra, ..Row::new(workload, variant, "s", elapsed.as_secs_f64()) })
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
        _ => Counts::of_updates(same),
    }
}
