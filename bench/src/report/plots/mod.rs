//! The plots of a report, as SVG.

mod canvas;
mod curves;
mod figures;
mod growth;
mod lines;
mod look;
mod ranges;
mod scale;

pub(super) use canvas::Drawn;
pub(super) use look::style_sheet;

use super::{Report, Summary};

/// Plots that belong together.
pub(super) struct Section {
    pub title: &'static str,
    /// How to read them.
    pub note: &'static str,
    pub plots: Vec<Plot>,
}

/// One plot.
pub(super) struct Plot {
    /// What its file is called, without the ending.
    pub name: String,
    pub title: String,
    pub svg: String,
}

impl Plot {
    fn new(name: &str, title: &str, draw: impl FnOnce(&str) -> Drawn<String>) -> Drawn<Self> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let name = name.trim_end().chars().map(plain).collect();
        Ok(Self { name, title: title.to_owned(), svg: draw(title)? })
    }
}

/// All plots that a report has rows for.
pub(super) fn sections(report: &Report) -> Drawn<Vec<Section>> {
    const LISTS: [&str; 3] = ["initial", "relist", "churn"];
    let rows = &report.rows;
    let each = |plots: fn(&[Summary], &str) -> Drawn<Vec<Plot>>, workloads: &[&str]| -> Drawn<Vec<Plot>> {
        let all: Drawn<Vec<_>> = workloads.iter().map(|workload| plots(rows, workload)).collect();
        Ok(all?.into_iter().flatten().collect())
    };
    let all = [
        Section {
            title: "Lists",
            note: "Time until one handler has seen everything: less is better. The mark is the median of all rounds, the \
                   whisker goes from the least to the most. The right column: how many times as long as deltafifo (or the \
                   first engine, where deltafifo was not measured).",
            plots: each(figures::times, &LISTS)?,
        },
        Section {
            title: "Growth",
            note: "Time per object by how many there are, with the spread of the rounds: a level line means that the whole grows \
 in step with the number.",
            plots: growth::plots(rows, &LISTS)?,
        },
        Section {
            title: "Events",
            note: "Updates a second through a filled engine, by keys and by producers and consumers: more is better. The right \
 column: how many times as fast deltafifo is.",
            plots: each(figures::rates, &["events", "slow-handler"])?,
        },
        Section {
            title: "Latency",
            note: "How long single calls take: lower is better. Each step to the right leaves a tenth of the samples beyond \
                   it.",
            plots: each(curves::plots, &["stall", "readers", "queries", "slow-handler"])?,
        },
        Section {
            title: "Work queue",
            note: "Keys a second, each added, taken and done, by who does it and on how many threads: more is better. The right \
 column: how many times as fast deltafifo is.",
            plots: figures::rates(rows, "workqueue")?,
        },
        Section { title: "Memory", note: "Bytes per key: less is better.", plots: figures::memory(rows)? },
    ];
    Ok(all.into_iter().filter(|section| !section.plots.is_empty()).collect())
}

/// The rows of the largest number of objects among those that are wanted.
fn largest(rows: &[Summary], wanted: impl Fn(&Summary) -> bool) -> Vec<&Summary> {
    let rows: Vec<_> = rows.iter().filter(|row| wanted(row)).collect();
    let most = rows.iter().map(|row| row.objects).max();
    rows.into_iter().filter(|row| Some(row.objects) == most).collect()
}
