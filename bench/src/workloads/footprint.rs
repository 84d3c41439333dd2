//! The workload `memory`: resident bytes for each key, on one fresh engine.
//!
//! * `idle`: the memory while every object is known and no delta is pending, minus the memory
//!   before the first list. The objects and the lists exist before, so they do not count; the
//!   copies that kube-rs' store makes do.
//! * `pending-1`, `pending-2`, `pending-8`: the memory with this many pending updates of every key,
//!   minus the memory at `idle`. All updates use the objects of one list, because the size of an
//!   object does not matter here.
//! * `relist-peak`: the peak of the memory during a relist that begins after these updates were
//!   handled, minus the memory at the start of the relist.
//!
//! Each row has the counts of the handler in its own step, and the content of the store at the end.
//! Reading the store earlier would use memory.
//!
//! Resident memory includes free memory that the allocator keeps for later. So this workload has a
//! process of its own, in which mimalloc returns pages at once (`rounds/mod.rs`), and every step
//! runs on threads that end with it, because each thread keeps free pages, too. Only the free
//! memory between used pieces remains.

use std::sync::Arc;
use std::thread;

use serde_json::Map;

use super::fill::{ChildError, relist};
use super::memory::MemoryMark;
use super::outcome::{add_counts, add_store, expect};
use super::threads::unwrap_join;
use crate::data::{ListPlan, Source, build};
use crate::engines::{Counts, ListEngine};
use crate::names::Workload;
use crate::process::resident;
use crate::protocol::{ChildArgs, Row, output};

/// Numbers of pending updates for every key.
const PENDING: [usize; 3] = [1, 2, 8];

/// A function that offers an update to an engine.
pub(super) type OfferFn<E, T> = fn(&E, Arc<T>);

/// Runs all variants on one engine. Without an `offer`, leaves out the variants with pending
/// updates.
pub(super) fn run<S: Source, E: ListEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> E,
    offer: Option<OfferFn<E, S::Object>>,
) -> Result<(), ChildError> {
    let objects = args.objects;
    output::progress("building lists")?;
    let built = [build(source, &ListPlan::same(objects)), build(source, &ListPlan::same(objects))];
    let lists = built.each_ref().map(|list| E::List::from(list));

    output::progress("memory idle")?;
    let before = resident();
    let engine = new();
    let counts = on_own_thread(|| relist(&engine, lists[0].clone()));
    let idle = resident();
    let mut rows = vec![row(objects, "idle", idle, before, counts)];

    if let Some(offer) = offer {
        let mut offered = 0;
        let mut growths = Vec::new();
        for pending in PENDING {
            output::progress(format!("memory pending-{pending}"))?;
            on_own_thread(|| {
                for object in (offered..pending).flat_map(|_| &built[1]) {
                    offer(&engine, object.clone());
                }
            });
            offered = pending;
            growths.push((format!("pending-{pending}"), resident()));
        }
        let (counts, updates) = (on_own_thread(|| engine.drain()), offered * objects);
        expect("memory", counts, Counts::of_updates(updates))?;
        rows.extend(
            growths.iter().map(|(variant, bytes)| row(objects, variant, *bytes, idle, counts)),
        );
    }

    output::progress("memory relist-peak")?;
    let list = lists[0].clone();
    let mark = MemoryMark::set(args);
    let counts = on_own_thread(|| relist(&engine, list));
    let mut peak = row(objects, "relist-peak", mark.peak_over_start(), 0, counts);
    peak.extra.extend(mark.fields());
    rows.push(peak);

    let mut store = Map::new();
    add_store::<S>(&engine, &mut store);
    for row in &mut rows {
        row.extra.extend(store.clone());
    }
    Ok(output::rows(rows)?)
}

/// Runs a step on a thread of its own, and returns its result.
fn on_own_thread<R: Send>(step: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| unwrap_join(scope.spawn(step).join()))
}

/// Returns the row of the growth of the memory from `base` to `bytes`, in bytes per key. With few
/// keys the growth may be negative.
#[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^53")]
fn row(objects: usize, variant: &str, bytes: u64, base: u64, counts: Counts) -> Row {
    let mut row =
        Row::new(Workload::Memory, variant, "B", (bytes as f64 - base as f64) / objects as f64);
    add_counts(counts, &mut row.extra);
    row
}
