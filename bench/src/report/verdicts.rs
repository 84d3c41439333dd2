//! What must hold of the figures themselves: said under the tables and on the page.

use super::Summary;
use super::figure::figure;
use crate::engines::EngineName;
use crate::workloads::Workload;

/// The least ratio of client-go-deltafifo to mutex: a baseline that were slower would flatter whoever is compared with it.
const LEAST_BASE_RATIO: f64 = 2.3;

/// The most seconds that all but one in a thousand gets of a key may take while relists go on: no relist holds one up.
const LONGEST_GET: f64 = 50e-6;

/// A sentence for each of them that there are rows for.
pub(super) fn verdicts(rows: &[Summary]) -> Vec<String> {
    [base_ratio(rows), longest_get(rows)].into_iter().flatten().collect()
}

/// Of the largest relist that both have: fewer objects have more of other costs.
fn base_ratio(rows: &[Summary]) -> Option<String> {
    let relists = |engine: EngineName| {
        rows.iter().filter(move |row| row.workload == Workload::Relist.name() && row.engine == engine.name())
    };
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

/// The slowest of all rounds, and of all numbers of readers, with the most objects: a median would hide that a relist held
/// up a reader now and then.
fn longest_get(rows: &[Summary]) -> Option<String> {
    let of_relists = |variant: &str| variant.ends_with("-p99.9") && !variant.starts_with("idle-");
    let gets = rows.iter().filter(|row| {
        row.workload == Workload::Readers.name()
            && row.engine == EngineName::DeltaFifo.name()
            && of_relists(&row.variant)
    });
    let longest = gets.max_by(|a, b| a.objects.cmp(&b.objects).then(a.max.total_cmp(&b.max)))?;
    let verdict = if longest.max <= LONGEST_GET { "as it must be" } else { "A READER IS HELD UP" };
    Some(format!(
        "readers during relists: a get of deltafifo takes {} at {} in the slowest round (at most {}): {verdict}",
        figure(longest.max, &longest.unit),
        longest.variant,
        figure(LONGEST_GET, "s")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Row;
    use crate::rounds::Measured;

    fn verdict(rows: &[(EngineName, usize, Workload, &str, f64)]) -> String {
        let rows: Vec<_> = rows
            .iter()
            .map(|&(engine, objects, workload, variant, value)| Measured {
                engine,
                objects,
                row: Row::new(workload, variant, "s", value),
            })
            .collect();
        verdicts(&Summary::of(&rows)).join("\n")
    }

    #[test]
    fn a_base_that_is_too_slow_is_said() {
        let relists = |go, mutex| {
            verdict(&[
                (EngineName::ClientGoDeltaFifo, 10, Workload::Relist, "", go),
                (EngineName::Mutex, 10, Workload::Relist, "", mutex),
            ])
        };
        assert!(relists(3.0, 1.0).ends_with("3.00 × client-go-deltafifo on relist (at least 2.3): as it must be"));
        assert!(relists(2.0, 1.0).ends_with("TOO SLOW A BASE for ratios to mutex"));
        assert_eq!(verdict(&[(EngineName::Mutex, 10, Workload::Relist, "", 1.0)]), "");
    }

    #[test]
    fn a_reader_that_is_held_up_in_any_round_is_said() {
        let get = |objects, variant, value| (EngineName::DeltaFifo, objects, Workload::Readers, variant, value);
        let well = [
            get(10, "4-thread-p99.9", 1.0),
            get(20, "1-thread-p99.9", 2e-6),
            get(20, "4-thread-p99.9", 45e-6),
            get(20, "4-thread-p99.9", 3e-6),
            get(20, "4-thread-p99.99", 1.0),
            get(20, "idle-4-thread-p99.9", 1.0),
            (EngineName::Mutex, 20, Workload::Readers, "4-thread-p99.9", 1.0),
        ];
        let said = verdict(&well);
        assert!(said.contains("takes 45.0 µs at 4-thread-p99.9"), "{said}");
        assert!(said.ends_with("(at most 50.0 µs): as it must be"), "{said}");
        let mut held_up = well.to_vec();
        held_up.push(get(20, "1-thread-p99.9", 51e-6));
        assert!(verdict(&held_up).ends_with("A READER IS HELD UP"));
        assert_eq!(verdict(&well[4..]), "");
    }
}
