//! What the documents claim, made of the rows of a report: BENCHMARKS' table *The last full run* and the figures of the paragraph below
//! it, and BENCHMARKS.md's table of what was aimed at. `examples/claims.rs` prints them, and `tests/claims.rs` compares them
//! with what stands there. A ratio is one of the medians that the report shows; what has no row is a `-`.

mod aims;

use std::fmt::Write;

use super::figure::figure;
use super::{Report, Summary};

/// The objects of all claims but growth.
const OBJECTS: usize = 1_000_000;
const OURS: &str = "deltafifo";
const GO: &str = "client-go-deltafifo";

/// The table of the last full run: the engines in its order, and what it calls them.
const MEASURED: [(&str, &str); 10] = [
    (OURS, "**deltafifo** (two threads)"),
    ("deltafifo-skip", "deltafifo, unchanged skipped"),
    ("deltafifo-1-thread", "deltafifo on one thread"),
    ("mutex", "mutex: the classic design in Rust"),
    ("dashmap", "dashmap: DashMap and SegQueue, two consumers"),
    ("floor", "floor: the same steps on plain data, one thread"),
    ("kube-writer-arc", "kube-rs' store, objects behind an `Arc`, no deltas"),
    (GO, "client-go DeltaFIFO"),
    ("client-go-realfifo", "client-go RealFIFO"),
    ("client-go-informer", "client-go shared informer"),
];

/// A report that is asked for its rows.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a>(&'a Report);

impl<'a> Claims<'a> {
    /// Those of a report.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        Self(report)
    }

    fn row_of(self, workload: &str, variant: &str, engine: &str, objects: usize) -> Option<&'a Summary> {
        let is = |row: &&Summary| {
            (row.workload.as_str(), row.variant.as_str(), row.engine.as_str(), row.objects)
                == (workload, variant, engine, objects)
        };
        self.0.rows.iter().find(is)
    }

    fn row(self, workload: &str, variant: &str, engine: &str) -> Option<&'a Summary> {
        self.row_of(workload, variant, engine, OBJECTS)
    }

    fn median(self, workload: &str, variant: &str, engine: &str) -> Option<f64> {
        Some(self.row(workload, variant, engine)?.median)
    }

    /// How many times as fast this project is as another engine.
    fn times(self, workload: &str, variant: &str, other: &str) -> Option<f64> {
        self.row(workload, variant, other)?.times_slower_than(self.row(workload, variant, OURS)?)
    }

    fn shown(self, workload: &str, variant: &str, engine: &str) -> String {
        let row = self.row(workload, variant, engine);
        row.map_or_else(|| "-".to_owned(), |row| figure(row.median, &row.unit))
    }

    /// The figures of all rounds, the least first.
    fn rounds(self, workload: &str, variant: &str, engine: &str) -> String {
        let Some(row) = self.row(workload, variant, engine) else { return "-".to_owned() };
        let mut rounds = row.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        rounds.iter().map(|value| figure(*value, &row.unit)).collect::<Vec<_>>().join(" and ")
    }

    /// The table *The last full run*.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn measured(self) -> String {
        let mut table = "| engine | relist, s | | initial list, s | | relist, peak memory over the start |\n\
                         | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
        for (engine, called) in MEASURED {
            let cells = ["relist", "initial"].map(|workload| {
                let seconds = some(self.row(workload, "", engine).map(with_spread));
                let times = self.row(workload, "", engine).zip(self.row(workload, "", OURS));
                let times = times.and_then(|(row, ours)| row.times_slower_than(ours)).map(two);
                match engine {
                    OURS => format!("**{seconds}** | 1"),
                    _ => format!("{seconds} | {}", times.unwrap_or_else(|| "-".to_owned())),
                }
            });
            // Bytes a key in a process of its own, where the lists' runs have left nothing.
            let peak = self.row("memory", "relist-peak", engine);
            let peak = peak.map(|row| format!("{:.0} MB", row.median * row.objects as f64 / 1e6));
            let line = format!("| {called} | {} | {}", cells.join(" | "), peak.unwrap_or_default());
            // Writing to a String cannot fail.
            let _ = writeln!(table, "{} |", line.trim_end());
        }
        table
    }

    /// The figures of the paragraph below that table, a line each.
    #[must_use]
    pub fn paragraph(self) -> String {
        let times = |workload: &str, variant: &str, other: &str| some(self.times(workload, variant, other).map(two));
        let each = |workload: &str, variant: &str, engines: &[&str]| {
            let of = |engine: &&str| format!("{engine} {}", self.shown(workload, variant, engine));
            engines.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        let spread = |workload: &str, other: &str| {
            let ours = self.0.rows.iter().filter(|row| row.workload == workload && row.engine == OURS);
            let ratios = ours.map(|row| format!("{} {}", row.variant, times(workload, &row.variant, other)));
            ratios.collect::<Vec<_>>().join(", ")
        };
        let uniform = "uniform-1x1";
        [
            format!(
                "updates of uniform keys: {}; times mutex {}, dashmap {}, client-go's DeltaFIFO {}",
                self.shown("events", uniform, OURS),
                times("events", uniform, "mutex"),
                times("events", uniform, "dashmap"),
                times("events", uniform, GO)
            ),
            format!("an add during relists, p99.9: {}", each("stall", "add-p99.9", &[OURS, GO])),
            format!(
                "handled during relists, p99: {}",
                each("stall", "handled-p99", &[OURS, GO, "deltafifo-lane", "deltafifo-skip", "dashmap"])
            ),
            format!("a get during relists, p50: {}", each("readers", "1-thread-p50", &[OURS])),
            format!("a get during relists, p99.9: {}", each("readers", "1-thread-p99.9", &[OURS])),
            format!("a known and idle key: {}", each("memory", "idle", &[OURS, "mutex", GO])),
            format!("more while a delta is pending: {}", each("memory", "pending-1", &[OURS])),
            format!("rounds of the relist: {}", self.rounds("relist", "", OURS)),
            format!("rounds of the initial list: {}", self.rounds("initial", "", OURS)),
            format!("work queue, times mutex: {}", spread("workqueue", "mutex")),
            format!("work queue, times client-go: {}", spread("workqueue", GO)),
            format!(
                "an index's objects: {}, times mutex {}, client-go {}; a namespace's: {}",
                self.shown("queries", "by-index-p50", OURS),
                times("queries", "by-index-p50", "mutex"),
                times("queries", "by-index-p50", GO),
                self.shown("queries", "namespace-p50", OURS)
            ),
            String::new(),
        ]
        .join("\n")
    }
}

/// The figure that is shown and, in brackets, what the other rounds have.
fn with_spread(row: &Summary) -> String {
    let Summary { min, median, max, .. } = row;
    match row.rounds.len() {
        0 | 1 => format!("{median:.3}"),
        2 => format!("{median:.3} ({:.3})", min + max - median),
        _ => format!("{median:.3} ({min:.3} to {max:.3})"),
    }
}

/// A ratio in two digits, as all of them stand in the documents.
fn two(ratio: f64) -> String {
    match ratio {
        ..0.995 => format!("{ratio:.2}"),
        0.995..9.95 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0}"),
    }
}

fn some(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
