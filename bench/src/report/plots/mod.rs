//! The plots of a report, as SVG.

mod canvas;
mod curves;
mod figures;
mod growth;
mod lines;
mod names;
mod ranges;
mod scale;
mod style;

pub(super) use canvas::Drawn;
pub(super) use style::style_sheet;

use names::Names;

use super::groups::distinct;
use super::{Report, Summary};

/// Plots that belong together.
pub(super) struct Section {
    pub title: &'static str,
    /// An explanation of the plots.
    pub note: &'static str,
    pub plots: Vec<Plot>,
}

/// A plot.
pub(super) struct Plot {
    /// The name of its file, without the extension.
    pub name: String,
    pub title: String,
    pub svg: String,
}

impl Plot {
    fn new(name: &str, title: &str, draw: impl FnOnce(&str) -> Drawn<String>) -> Drawn<Self> {
        Ok(Self { name: name.to_owned(), title: title.to_owned(), svg: draw(title)? })
    }
}

/// Returns all plots for which the report has rows.
pub(super) fn sections(report: &Report) -> Drawn<Vec<Section>> {
    const LISTS: [&str; 3] = ["initial", "relist", "churn"];
    let rows = &report.rows;
    let each = |plots: fn(&[Summary], &str) -> Drawn<Vec<Plot>>,
                workloads: &[&str]|
     -> Drawn<Vec<Plot>> {
        let all: Drawn<Vec<_>> = workloads.iter().map(|workload| plots(rows, workload)).collect();
        Ok(all?.into_iter().flatten().collect())
    };
    let mut all = [
        Section {
            title: "Lists",
            note: "Time until one handler has seen everything: less is better. The mark is the median of all rounds (of \
                   an even number the worse of the two in the middle), the whisker goes from the least to the most. The right column: how many times as long as deltafifo (or the \
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
                   it. At each percentile the line is at the round that the tables show, and it ends where fewer than ten \
                   samples lie beyond: the largest of them stands apart, at the right. Who has few samples has their number \
                   beside the name.",
            plots: each(curves::plots, &["stall", "readers", "queries", "slow-handler"])?,
        },
        Section {
            title: "Work queue",
            note: "Keys a second, each added, taken and done, by who does it and on how many threads: more is better. The right \
 column: how many times as fast deltafifo is.",
            plots: figures::rates(rows, "workqueue")?,
        },
        Section {
            title: "Memory",
            note: "Bytes per key: less is better.",
            plots: figures::memory(rows)?,
        },
        Section {
            title: "A real API server",
            note: "Clients of one server on the same machine: seconds, and CPU seconds of the client alone, until its handler was \
                   told of everything: less is better. What curl takes is what the server takes.",
            plots: figures::times(rows, "server")?,
        },
    ];
    let mut names = Names::default();
    for plot in all.iter_mut().flat_map(|section| &mut section.plots) {
        plot.name = names.plain(&plot.name);
    }
    Ok(all.into_iter().filter(|section| !section.plots.is_empty()).collect())
}

/// Returns the wanted rows for one number of objects: the number that most engines have, and of
/// these the largest. After an interrupt, or in a joined growth run, the largest number of all may
/// have only a few engines.
fn largest(rows: &[Summary], wanted: impl Fn(&Summary) -> bool) -> Vec<&Summary> {
    let rows: Vec<_> = rows.iter().filter(|row| wanted(row)).collect();
    let engines = |objects| {
        distinct(rows.iter().filter(|row| row.objects == objects).map(|row| &row.engine)).len()
    };
    let sizes = distinct(rows.iter().map(|row| row.objects));
    let widest = sizes.into_iter().max_by_key(|objects| (engines(*objects), *objects));
    rows.into_iter().filter(|row| Some(row.objects) == widest).collect()
}
