//! Whether the figures are what they should be: sentences for the terminal and the page.

use super::Summary;
use super::figure::{count, times};
use crate::engines::EngineName;
use crate::workloads::Workload;

/// The least ratio of client-go-deltafifo to mutex: a baseline that were slower would flatter whoever is compared with it.
const LEAST_BASE_RATIO: f64 = 2.3;
/// From so many objects to so many
const GROWTH: [usize; 2] = [100_000, 4_000_000];
/// the time for one may grow by this much.
const MOST_GROWTH: f64 = 1.5;

/// All that can be said of these rows.
pub(super) fn sanity(rows: &[Summary]) -> Vec<String> {
    let grown = [Workload::Initial, Workload::Relist].into_iter().filter_map(|workload| growth(rows, workload));
    base_ratio(rows).into_iter().chain(grown).collect()
}

/// Of the largest relist that both have: fewer objects have more of other costs.
fn base_ratio(rows: &[Summary]) -> Option<String> {
    let relists = |engine| lists(rows, engine, Workload::Relist);
    let both = relists(EngineName::ClientGoDeltaFifo).filter_map(|go| {
        let mutex = relists(EngineName::Mutex).find(|mutex| mutex.objects == go.objects)?;
        Some((go, mutex))
    });
    let (go, mutex) = both.max_by_key(|(go, _)| go.objects)?;
    let ratio = go.times_slower_than(mutex)?;
    let verdict = if ratio >= LEAST_BASE_RATIO { "as it must be" } else { "TOO SLOW A BASE for ratios to mutex" };
    Some(format!(
        "base of the ratios: mutex is {ratio:.2} × client-go-deltafifo on relist (at least {LEAST_BASE_RATIO}): {verdict}"
    ))
}

/// Of this project's time for one object.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn growth(rows: &[Summary], workload: Workload) -> Option<String> {
    let each = |objects: usize| {
        let row = lists(rows, EngineName::DeltaFifo, workload).find(|row| row.objects == objects)?;
        Some(row.median / objects as f64)
    };
    let [few, many] = GROWTH;
    let ratio = Some(each(many)? / each(few)?).filter(|ratio| ratio.is_finite())?;
    let verdict = if ratio <= MOST_GROWTH { "as it must be" } else { "IT GROWS TOO FAST" };
    Some(format!(
        "growth: {workload} of deltafifo takes {} as long for one of {} objects as for one of {} (at most {MOST_GROWTH}): \
         {verdict}",
        times(ratio),
        count(many),
        count(few)
    ))
}

fn lists(rows: &[Summary], engine: EngineName, workload: Workload) -> impl Iterator<Item = &Summary> {
    rows.iter()
        .filter(move |row| row.workload == workload.name() && row.variant.is_empty() && row.engine == engine.name())
}
