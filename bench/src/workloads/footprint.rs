//! The workload memory: resident bytes for each key on one fresh engine. First everything known
//! and idle, over what the process had before (`idle`: the objects and the lists are made before;
//! what kube-rs' store clones is its own). Then 1, 2 and 8 pending updates of every key, over idle
//! (`pending-1`…); the updates are the objects of one list over and over, since what an object
//! takes does not matter here. When these are handled, the peak of a relist, over its start
//! (`relist-peak`). Every row has what its own step's handler counted, and what the store holds at
//! the end: to look before would take memory.
//!
//! Resident is also what the allocator keeps for later. So this runs in a process of its own,
//! mimalloc gives pages back at once there (`rounds/mod.rs`), and every step is done by threads
//! that end with it, since a thread keeps free pages too. What remains is what lies free between
//! what is used.

use std::sync::Arc;
use std::thread;

use serde_json::Map;

use super::events::resume;
use super::fill::{ChildError, relist};
use super::memory::{MemoryMark, resident};
use super::outcome::{add_counts, add_store};
use crate::data::{Plan, Source, build};
use crate::engines::{Counts, ListEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, Line, Output, Row};

/// How many updates of every key are pending.
const PENDING: [usize; 3] = [1, 2, 8];

/// How an engine takes an update.
pub(super) type Offer<E, T> = fn(&E, Arc<T>);

/// Runs all variants on one engine; those of pending updates if there is a way to offer them.
pub(super) fn run<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
    offer: Option<Offer<E, S::Object>>,
    out: &mut Output,
) -> Result<(), ChildError> {
    let objects = args.objects;
    out.progress("building lists")?;
    let built = [build(source, &Plan::same(objects)), build(source, &Plan::same(objects))];
    let lists = built.each_ref().map(|list| E::List::from(list));

    out.progress("memory idle")?;
    let before = resident();
    let engine = new();
    let counts = apart(|| relist(&engine, lists[0].clone()));
    let idle = resident();
    let mut rows = vec![row(objects, "idle", idle, before, counts)];

    if let Some(offer) = offer {
        let mut offered = 0;
        let mut growths = Vec::new();
        for pending in PENDING {
            out.progress(&format!("memory pending-{pending}"))?;
            apart(|| {
                for object in (offered..pending).flat_map(|_| &built[1]) {
                    offer(&engine, object.clone());
                }
            });
            offered = pending;
            growths.push((format!("pending-{pending}"), resident()));
        }
        let (counts, updates) = (apart(|| engine.drain()), offered * objects);
        if counts != (Counts { updates, ..Counts::default() }) {
            return Err(format!("memory: {counts:?} of {updates} updates").into());
        }
        rows.extend(
            growths.iter().map(|(variant, bytes)| row(objects, variant, *bytes, idle, counts)),
        );
    }

    out.progress("memory relist-peak")?;
    let list = lists[0].clone();
    let mark = MemoryMark::set(args);
    let counts = apart(|| relist(&engine, list));
    let mut peak = row(objects, "relist-peak", mark.peak_over_start(), 0, counts);
    mark.add_to(&mut peak.extra);
    rows.push(peak);

    let mut store = Map::new();
    add_store::<S>(&engine, &mut store);
    for mut row in rows {
        row.extra.extend(store.clone());
        out.line(&Line::Row(row))?;
    }
    Ok(())
}

/// Does a step in a thread of its own.
fn apart<R: Send>(step: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| resume(scope.spawn(step).join()))
}

/// The growth of so many keys. Of a few it may be less than none.
#[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^53")]
fn row(objects: usize, variant: &str, bytes: u64, base: u64, counts: Counts) -> Row {
    let mut row =
        Row::new(Workload::Memory, variant, "B", (bytes as f64 - base as f64) / objects as f64);
    add_counts(counts, &mut row.extra);
    row
}
