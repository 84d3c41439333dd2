//! The end of the output of a run without options: two sentences about the meaning of the figures,
//! and the command that measures everything.

use super::figure::{count, figure, times};
use super::{Report, Summary};
use crate::names::{EngineName, Workload};

/// The command that measures everything.
const FULL: &str =
    "cargo run --release --features peers --bin relist -- --workload all --report target/report";

/// Returns the text that ends the output of a run without options.
pub fn meaning(report: &Report) -> String {
    let full = format!(
        "That was one round, and rounds differ by a fifth and more. All engines (also kube-rs' store) and workloads, with \
         plots, take more than an hour:\n  {FULL}"
    );
    let sentences = [advantage(report), distance(report), Some(full)];
    format!("\n{}\n", sentences.into_iter().flatten().collect::<Vec<_>>().join("\n\n"))
}

fn relist(report: &Report, engine: EngineName) -> Option<&Summary> {
    let is = |row: &&Summary| row.workload == Workload::Relist.name() && row.variant.is_empty();
    report.rows.iter().filter(is).find(|row| row.engine == engine.name())
}

/// Returns the sentence with the times of relists of other engines, as multiples of deltafifo's
/// time. Returns `None` if deltafifo or all other engines were not measured.
fn advantage(report: &Report) -> Option<String> {
    let ours = relist(report, EngineName::DeltaFifo)?;
    let others = [
        (EngineName::Mutex, "one mutex around a queue and a store"),
        (EngineName::DashMap, "DashMap with a lock-free queue"),
        (EngineName::ClientGoDeltaFifo, "client-go's DeltaFIFO"),
        (EngineName::ClientGoInformer, "client-go's informer"),
    ];
    let others = others.into_iter().filter_map(|(engine, name)| {
        Some(format!("{name} {}", times(relist(report, engine)?.times_slower_than(ours)?)))
    });
    let others = others.collect::<Vec<_>>().join(", ");
    let (objects, figure) = (count(ours.objects), figure(ours.median, &ours.unit));
    (!others.is_empty()).then(|| {
        format!(
            "deltafifo brings a list of {objects} known objects to its handler in {figure}, and the others take longer: {others}."
        )
    })
}

/// Returns the sentence that compares deltafifo with the engine `floor`, the lower limit for the
/// time of a relist (`engines/floor/`). Returns `None` if one of them was not measured.
fn distance(report: &Report) -> Option<String> {
    let (ours, floor) =
        (relist(report, EngineName::DeltaFifo)?, relist(report, EngineName::Floor)?);
    Some(format!(
        "The floor, one thread that does the same steps on plain data, takes {}, so a queue and a store that producers, \
         consumers and readers share cost {} the least.",
        figure(floor.median, &floor.unit),
        times(ours.times_slower_than(floor)?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::protocol::{Measured, Row};
    use crate::report::Run;

    fn of(figures: &[(EngineName, f64)]) -> String {
        let measured = |&(engine, value): &(EngineName, f64)| {
            Measured::new(engine, 1000, Row::new(Workload::Relist, "", "s", value))
        };
        let rows: Vec<_> = figures.iter().map(measured).collect();
        meaning(&Report::of(Run::begins("relist", 1), Machine::here(), Summary::of(&rows, 1)))
    }

    #[test]
    fn first_run_ends_with_the_ratios_and_the_command_for_the_rest() {
        let text =
            of(&[(EngineName::DeltaFifo, 0.2), (EngineName::Mutex, 1.0), (EngineName::Floor, 0.1)]);
        for part in ["1,000 known objects", "in 0.200 s", "a store 5.00 ×.", "2.00 × the least"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = of(&[(EngineName::Mutex, 1.0), (EngineName::Floor, 0.1)]);
        assert!(!text.contains('×') && text.ends_with(&format!("{FULL}\n")), "{text}");
    }
}
