//! A relist whose lists belong to the engine alone, so that handling the new objects frees the old.

use std::time::Instant;

use serde_json::Map;

use super::Workload;
use super::child::{ChildArgs, ChildError, add_outcome};
use super::memory::MemoryMark;
use crate::data::{Plan, Source, build};
use crate::engines::{Counts, ListEngine};
use crate::protocol::{Output, Row};

/// Gives the engine a list of its own, and then measures another one.
pub(super) fn run<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    engine: &E,
    out: &mut Output,
) -> Result<Row, ChildError> {
    out.progress("relist owned")?;
    engine.replace(E::List::from(&build(source, &Plan::same(args.objects))), "6000000");
    engine.drain();
    let given = E::List::from(&build(source, &Plan::same(args.objects)));

    let memory = MemoryMark::set(args.objects);
    let start = Instant::now();
    engine.replace(given, "6000001");
    let counts = engine.drain();
    let elapsed = start.elapsed();

    let mut extra = Map::new();
    memory.add_to(&mut extra);
    let expected = Counts { updates: if E::SKIPS_UNCHANGED { 0 } else { args.objects }, ..Counts::default() };
    if counts != expected {
        return Err(format!("relist owned: {counts:?}, expected {expected:?}").into());
    }
    add_outcome::<S>(counts, engine, &mut extra);
    Ok(Row { extra, ..Row::new(Workload::Relist, "owned", "s", elapsed.as_secs_f64()) })
}
