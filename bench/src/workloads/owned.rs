//! A relist with lists that only the engine holds, so that handling the new objects frees the old
//! ones.

use super::fill::{ChildError, relist};
use super::lists::measure;
use super::outcome::add_outcome;
use crate::data::{ListPlan, Source, build};
use crate::engines::ListEngine;
use crate::names::Workload;
use crate::protocol::{ChildArgs, Output, Row};

/// Gives the engine a list that only it holds, and measures a relist with another one.
pub(super) fn run<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    engine: &E,
    out: &mut Output,
) -> Result<Row, ChildError> {
    out.progress("relist owned")?;
    relist(engine, E::List::from(&build(source, &ListPlan::same(args.objects))));
    let given = E::List::from(&build(source, &ListPlan::same(args.objects)));
    let (mut row, counts) = measure(args, engine, given, "6000001", Workload::Relist, "owned")?;
    add_outcome::<S>(counts, engine, &mut row.extra);
    Ok(row)
}
