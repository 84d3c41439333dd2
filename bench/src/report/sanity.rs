//! Checks of the figures against fixed limits. The results are sentences for the terminal and the
//! page.

use super::Summary;
use super::figure::{count, figure, times};
use crate::names::{EngineName, Workload};

/// The smallest allowed ratio of the time of a relist in `client-go-deltafifo` to that in `mutex`.
/// If `mutex` became slower, the ratios of other engines to it would look better than they are.
const LEAST_BASE_RATIO: f64 = 2.3;
/// The numbers of objects between which the growth is checked.
const GROWTH: [usize; 2] = [100_000, 4_000_000];
/// The largest allowed ratio of the time per object with the second number of [`GROWTH`] to that
/// with the first one.
const MOST_GROWTH: f64 = 1.5;
/// The limit for the 99.9th percentile of a get during relists, in seconds. Above it, relists
/// delay readers.
const LONGEST_GET: f64 = 50e-6;

/// Returns the sentences of all checks for these rows.
pub(super) fn sanity(rows: &[Summary]) -> Vec<String> {
    let grown = [Workload::Initial, Workload::Relist]
        .into_iter()
        .filter_map(|workload| growth(rows, workload));
    base_ratios(rows).into_iter().chain(grown).chain(longest_get(rows)).collect()
}

/// Compares the engine `mutex` with `client-go-deltafifo`. Returns a sentence for every number of
/// objects with which both were measured, because the ratio may depend on that number.
fn base_ratios(rows: &[Summary]) -> Vec<String> {
    let relists = |engine| lists(rows, engine, Workload::Relist);
    let mut ratios: Vec<(usize, f64)> = relists(EngineName::ClientGoDeltaFifo)
        .filter_map(|go| {
            let mutex = relists(EngineName::Mutex).find(|mutex| mutex.objects == go.objects)?;
            Some((go.objects, go.times_slower_than(mutex)?))
        })
        .collect();
    ratios.sort_by_key(|&(objects, _)| objects);
    let sentence = |(objects, ratio)| {
        let verdict = verdict(ratio >= LEAST_BASE_RATIO, "BASE TOO SLOW for ratios to mutex");
        let objects = count(objects);
        format!(
            "base of the ratios: mutex is {ratio:.2} × client-go-deltafifo on a relist of \
             {objects} objects (at least {LEAST_BASE_RATIO}): {verdict}"
        )
    };
    ratios.into_iter().map(sentence).collect()
}

/// Returns the sentence that compares the times per object that deltafifo needs for `workload` with
/// the two numbers of [`GROWTH`]. Returns `None` if one of them was not measured.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn growth(rows: &[Summary], workload: Workload) -> Option<String> {
    let per_object = |objects: usize| {
        let mut rows = lists(rows, EngineName::DeltaFifo, workload);
        Some(rows.find(|row| row.objects == objects)?.median / objects as f64)
    };
    let [few, many] = GROWTH;
    let ratio = Some(per_object(many)? / per_object(few)?).filter(|ratio| ratio.is_finite())?;
    let verdict = verdict(ratio <= MOST_GROWTH, "GROWS TOO FAST");
    let (ratio, few, many) = (times(ratio), count(few), count(many));
    Some(format!(
        "growth: an object in {workload} of {many} takes deltafifo {ratio} as long as one of {few} \
         (at most {MOST_GROWTH}): {verdict}"
    ))
}

/// Returns the sentence about the gets of deltafifo during relists, for the largest number of
/// objects. It has the largest 99.9th percentile of all rounds and numbers of readers, because a
/// median would hide a relist that delays readers only sometimes. Returns `None` if no gets were
/// measured.
fn longest_get(rows: &[Summary]) -> Option<String> {
    let of_relists = |variant: &str| variant.ends_with("-p99.9") && !variant.starts_with("idle-");
    let gets = rows.iter().filter(|row| {
        row.workload == Workload::Readers.name()
            && row.engine == EngineName::DeltaFifo.name()
            && of_relists(&row.variant)
    });
    let longest = gets.max_by(|a, b| a.objects.cmp(&b.objects).then(a.max.total_cmp(&b.max)))?;
    let verdict = verdict(longest.max <= LONGEST_GET, "A READER IS DELAYED");
    let (objects, variant) = (count(longest.objects), &longest.variant);
    let [time, limit] = [longest.max, LONGEST_GET].map(|seconds| figure(seconds, "s"));
    Some(format!(
        "readers during relists of {objects} objects: a get of deltafifo takes {time} at {variant} \
         in the slowest round (at most {limit}): {verdict}"
    ))
}

fn verdict(is_within_limit: bool, failure: &str) -> &str {
    if is_within_limit { "as required" } else { failure }
}

fn lists(
    rows: &[Summary],
    engine: EngineName,
    workload: Workload,
) -> impl Iterator<Item = &Summary> {
    rows.iter().filter(move |row| {
        row.workload == workload.name() && row.variant.is_empty() && row.engine == engine.name()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Measured, Row};

    #[test]
    fn base_is_checked_for_every_number_of_objects() {
        let relist = |engine, objects, value| {
            Measured::new(engine, objects, Row::new(Workload::Relist, "", "s", value))
        };
        let rows = [
            relist(EngineName::Mutex, 20, 2.0),
            relist(EngineName::Mutex, 10, 1.0),
            relist(EngineName::Mutex, 30, 1.0),
            relist(EngineName::ClientGoDeltaFifo, 20, 4.0),
            relist(EngineName::ClientGoDeltaFifo, 10, 3.0),
        ];
        let sentences = sanity(&Summary::of(&rows, 1));
        assert!(
            sentences[0].contains("3.00 × client-go-deltafifo on a relist of 10 objects"),
            "{sentences:?}"
        );
        assert!(sentences[0].ends_with("as required"), "{sentences:?}");
        assert!(
            sentences[1].contains("2.00 ×") && sentences[1].contains("BASE TOO SLOW"),
            "{sentences:?}"
        );
        assert_eq!(sentences.len(), 2, "{sentences:?}");
    }

    #[test]
    fn delayed_reader_in_any_round_is_reported() {
        let get = |engine, objects, variant: &str, value| {
            Measured::new(engine, objects, Row::new(Workload::Readers, variant, "s", value))
        };
        let text = |rows: &[Measured]| sanity(&Summary::of(rows, 1)).join("\n");
        let ours = EngineName::DeltaFifo;
        let of_others = [
            get(ours, 20, "4-thread-p99.99", 1.0),
            get(ours, 20, "idle-4-thread-p99.9", 1.0),
            get(EngineName::Mutex, 20, "4-thread-p99.9", 1.0),
        ];
        assert_eq!(text(&of_others), "");
        let mut all = of_others.to_vec();
        all.extend([
            get(ours, 10, "4-thread-p99.9", 1.0),
            get(ours, 20, "1-thread-p99.9", 2e-6),
            get(ours, 20, "4-thread-p99.9", 45e-6),
            get(ours, 20, "4-thread-p99.9", 3e-6),
        ]);
        let well = text(&all);
        assert!(well.contains("takes 45.0 µs at 4-thread-p99.9"), "{well}");
        assert!(well.ends_with("(at most 50.0 µs): as required"), "{well}");
        all.push(get(ours, 20, "1-thread-p99.9", 51e-6));
        assert!(text(&all).ends_with("A READER IS DELAYED"));
    }
}
