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

/// A plot as SVG, with the name of its file.
pub(super) struct Plot {
    /// The name of the plot's file, without the extension.
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
            note: "Time until one handler was notified of everything; less is better. The mark is \
                   the median of all rounds (of an even number, the worse of the two in the \
                   middle), and the whisker goes from the minimum to the maximum. The right \
                   column is the ratio to deltafifo, or to the first engine if deltafifo was not \
                   measured.",
            plots: each(figures::times, &LISTS)?,
        },
        Section {
            title: "Growth",
            note: "Time per object against the number of objects, with the spread of the rounds. \
                   A level line means that the time grows in proportion to the number.",
            plots: growth::plots(rows, &LISTS)?,
        },
        Section {
            title: "Events",
            note: "Updates a second through a filled engine, by keys, producers and consumers; \
                   more is better. The right column is the factor by which deltafifo is faster.",
            plots: each(figures::rates, &["events", "slow-handler"])?,
        },
        Section {
            title: "Latency",
            note: "Duration of single calls; lower is better. Each step to the right leaves a \
                   tenth of the samples beyond it. At each percentile the line shows the round \
                   that the tables show. It ends where fewer than ten samples lie beyond; the \
                   largest sample is a separate mark at the right. The name of an engine with few \
                   samples is followed by their number.",
            plots: each(curves::plots, &["stall", "readers", "queries", "slow-handler"])?,
        },
        Section {
            title: "Work queue",
            note: "Keys a second that are added, taken and done, by shape and number of threads; \
                   more is better. The right column is the factor by which deltafifo is faster.",
            plots: figures::rates(rows, "workqueue")?,
        },
        Section {
            title: "Memory",
            note: "Bytes per key; less is better.",
            plots: figures::memory(rows, "memory")?,
        },
        Section {
            title: "Cache",
            note: "Bytes per object of a cluster in an informer, at rest and at the peak of the \
                   first list; less is better.",
            plots: figures::memory(rows, "cache")?,
        },
        Section {
            title: "Cache: lists and gets",
            note: "CPU seconds of the first list and of a relist with 1 % changed objects, and the \
                   median duration of a get; less is better.",
            plots: figures::times(rows, "cache")?,
        },
        Section {
            title: "A real API server",
            note: "Clients of a server on the same machine: seconds, and CPU seconds of the client \
                   alone, until its handler was notified of everything; less is better. The time \
                   of curl is the time of the server.",
            plots: figures::times(rows, "server")?,
        },
    ];
    let mut names = Names::default();
    for plot in all.iter_mut().flat_map(|section| &mut section.plots) {
        plot.name = names.plain(&plot.name);
    }
    Ok(all.into_iter().filter(|section| !section.plots.is_empty()).collect())
}

/// Returns the wanted rows for one number of objects: the number that was measured with the most
/// engines, or the largest such number if there are several. The largest number of all may have
/// been measured with only a few engines, if the run was interrupted, or if a run that measures the
/// growth was joined to it.
fn largest(rows: &[Summary], wanted: impl Fn(&Summary) -> bool) -> Vec<&Summary> {
    let rows: Vec<_> = rows.iter().filter(|row| wanted(row)).collect();
    let engines = |objects| {
        distinct(rows.iter().filter(|row| row.objects == objects).map(|row| &row.engine)).len()
    };
    let sizes = distinct(rows.iter().map(|row| row.objects));
    let widest = sizes.into_iter().max_by_key(|objects| (engines(*objects), *objects));
    rows.into_iter().filter(|row| Some(row.objects) == widest).collect()
}
