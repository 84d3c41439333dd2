//! Tests that the page and the plots of a report show all of its figures, including unusual ones.

use std::fs;

use serde_json::{Value, json};

use super::directory::Directory;
use super::{Missed, Report, Summary, Verdict, print};
use crate::names::{EngineName, Workload};
use crate::protocol::{Measured, Row};

/// The quantiles of a curve.
const QUANTILES: [f64; 13] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0];

fn row(
    workload: &str,
    variant: &str,
    engine: &str,
    objects: usize,
    unit: &str,
    value: f64,
) -> Value {
    json!({
        "workload": workload, "variant": variant, "engine": engine, "objects": objects, "unit": unit,
        "min": value / 2.0, "median": value, "max": value * 2.0, "rounds": [value, value * 2.0], "extra": { "start_bytes": 1_000_000, "peak_bytes": 8_000_000 }
    })
}

/// Adds a curve that starts at the median.
fn with_curve(mut row: Value) -> Value {
    let median = row["median"].as_f64().expect("a median");
    row["extra"]["curve"] =
        QUANTILES.map(|quantile| json!([quantile, median * (1.0 + 100.0 * quantile)])).into();
    row
}

fn report(rows: &[Value]) -> Report {
    let machine = json!({
        "cpu": "A <CPU> & more", "cores": 2, "memory_bytes": 8_000_000_000_u64, "kernel": "6.1", "allocator": "one 1.2",
        "engines": { "deltafifo": "deltafifo 0.1 of today" }
    });
    let run = json!({ "date": "2026-11-21T12:00:00Z", "command": "relist --json 'a b'", "commit": "0123456", "rounds": 3, "complete": true });
    serde_json::from_value(json!({ "format": 2, "runs": [run], "machine": machine, "rows": rows }))
        .expect("it is a report")
}

/// Writes a report. Returns its page, its rows as JSON, and the names and texts of its plots.
/// Asserts that each plot is XML without NaN or infinity.
fn write_report(report: &Report) -> (String, String, Vec<(String, String)>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("report");
    Directory::make(&path).and_then(|directory| directory.write(report)).expect("it is written");
    let mut plots = Vec::new();
    for entry in fs::read_dir(&path).expect("it is there") {
        let file = entry.expect("it can be read").path();
        if file.extension().is_some_and(|extension| extension == "svg") {
            let text = fs::read_to_string(&file).expect("text");
            let svg = roxmltree::Document::parse(&text).expect("well-formed");
            assert!(svg.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
            plots.push((file.file_stem().expect("a name").to_string_lossy().into_owned(), text));
        }
    }
    plots.sort();
    let [page, json] = ["index.html", "rows.json"]
        .map(|file| fs::read_to_string(path.join(file)).expect("it is written"));
    for text in plots.iter().map(|(_, text)| text).chain([&page]) {
        for odd in ["NaN", ">inf", "\"inf"] {
            assert!(!text.contains(odd), "{text}");
        }
    }
    assert_eq!(plots.len(), page.matches("<svg").count(), "each plot is on the page");
    (page, json, plots)
}

/// Writes a report of these rows. Returns its page and plots.
fn write(rows: &[Value]) -> (String, Vec<(String, String)>) {
    let (page, _, plots) = write_report(&report(rows));
    (page, plots)
}

fn names(plots: &[(String, String)]) -> Vec<&str> {
    plots.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn page_has_every_engine_and_every_figure() {
    let mut rows = Vec::new();
    for (engine, value) in EngineName::ALL.iter().zip(1_u8..) {
        let value = f64::from(value);
        let row = |workload, variant, unit, value| {
            row(workload, variant, engine.name(), 1_000_000, unit, value)
        };
        rows.extend([
            self::row("relist", "", engine.name(), 10_000, "s", value / 100.0),
            row("relist", "", "s", value),
            row("events", "uniform-1x1", "1/s", value * 1e6),
            row("memory", "idle", "B", value * 64.0),
            with_curve(row("stall", "add-p50", "s", value / 1e6)),
            row("stall", "add-p99", "s", value / 1e3),
            with_curve(row("readers", "idle-1-thread-p50", "s", value / 1e7)),
            row("readers", "4-thread-p99.9", "s", value / 1e6),
            with_curve(row("queries", "by-index-p50", "s", value / 1e4)),
            row("workqueue", "turns-4", "1/s", value * 1e6),
            with_curve(row("slow-handler", "10us-4-consumers-add-p50", "s", value)),
        ]);
    }
    let (page, plots) = write(&rows);
    let expected = [
        "events-uniform-1x1",
        "growth-relist",
        "memory-idle",
        "queries-by-index",
        "readers-idle-1-thread",
        "relist",
        "slow-handler-10us-4-consumers-add",
        "stall-add",
        "workqueue-turns-4",
    ];
    assert_eq!(names(&plots), expected);
    for engine in EngineName::ALL {
        for (name, svg) in &plots {
            assert!(svg.lines().any(|line| line == engine.name()), "{engine} is not on {name}");
        }
    }
    // The minimum, median and maximum of a row of each unit, as text.
    let figures = [
        "5.00 ms",
        "10.00 ms",
        "20.00 ms",
        "3.000 M/s",
        "576.0 B",
        "9.00 ms",
        "200.0 ns",
        "7 MB",
        "1,000,000",
    ];
    for figure in figures {
        assert!(page.contains(&format!(">{figure}<")), "no {figure}");
    }
    // The value of deltafifo, the first engine, in its slowest round.
    assert!(page.contains("a get of deltafifo takes 2.0 µs at 4-thread-p99.9"));
    for text in [
        "A &lt;CPU&gt; &amp; more",
        "relist --json 'a b'",
        "2026-11-21",
        "deltafifo 0.1 of today",
        "one 1.2",
    ] {
        assert!(page.contains(text), "no {text}");
    }
    assert!(page.contains("name=\"viewport\"") && page.contains("prefers-color-scheme"));
    for outside in ["<script", "<link", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn zero_tiny_and_huge_figures_are_drawn() {
    let odd = |value| {
        [
            row("initial", "", "deltafifo", 10, "s", value),
            row("initial", "", "floor", 10, "s", 0.0),
            row("initial", "", "deltafifo", 0, "s", value),
            row("events", "zipf-1x1", "deltafifo", 10, "1/s", value),
            row("memory", "relist-peak", "deltafifo", 10, "B", value),
            with_curve(row("stall", "handled-p50", "deltafifo", 10, "s", value)),
        ]
    };
    for (name, value) in [("zero", 0.0), ("tiny", 1e-300), ("huge", 1e300)] {
        assert_eq!(write(&odd(value)).1.len(), 5, "{name}");
    }
}

#[test]
fn report_of_one_or_no_figure_is_a_page() {
    let (page, plots) = write(&[]);
    assert!(plots.is_empty() && page.contains("Nothing was measured"));
    let (page, plots) = write(&[row("churn", "", "mutex", 5, "s", 1.0)]);
    assert_eq!(names(&plots), ["churn"]);
    assert!(page.contains("÷ mutex"));
}

#[test]
fn unknown_engines_and_workloads_are_shown() {
    let mut broken = row("readers", "1-thread-p50", "deltafifo", 5, "s", 1.0);
    broken["extra"]["curve"] = json!([[0.5, "much"]]);
    let rows = [
        broken,
        row("readers", "4-thread-p50", "deltafifo", 5, "s", 1.0),
        row("nap", "<b>", "engine & sons", 5, "naps", 3.0),
        row("relist", "../up", "engine & sons", 5, "s", 3.0),
    ];
    let (page, plots) = write(&rows);
    assert_eq!(names(&plots), ["relist-..-up"]);
    assert!(
        page.contains("3 naps") && page.contains("&lt;b&gt;") && page.contains("engine &amp; sons")
    );
}

#[test]
fn new_report_replaces_an_old_one_when_it_is_complete() {
    let temporary = tempfile::tempdir().expect("a directory");
    let page = || fs::read_to_string(temporary.path().join("index.html")).expect("text");
    let make = || Directory::make(temporary.path()).expect("it can be made");
    make().write(&report(&[row("relist", "", "mutex", 5, "s", 1.0)])).expect("it is written");
    let old = page();
    let directory = make();
    assert_eq!(page(), old, "until the new one is written");
    directory.write(&report(&[])).expect("it is written");
    assert!(old.contains("mutex") && !page().contains("mutex"));
}

#[test]
fn checks_and_remarks_of_the_terminal_are_on_the_page() {
    let mut events = row("events", "uniform-4x4", "client-go-realfifo", 10, "1/s", 1e6);
    events["extra"] = json!({ "deltas_per_pop": 1.5, "consumers": 1 });
    let rows = [
        row("relist", "", "mutex", 10, "s", 2.0),
        row("relist", "", "client-go-deltafifo", 10, "s", 3.0),
        row("relist", "", "deltafifo", 100_000, "s", 1.0),
        row("relist", "", "deltafifo", 4_000_000, "s", 80.0),
        events,
    ];
    let mut report = report(&rows);
    report.runs[0].verdict = Verdict::Disagree("one is not the other".to_owned());
    let (page, json, _) = write_report(&report);
    for text in [
        "mutex is 1.50 × client-go-deltafifo",
        "BASE TOO SLOW",
        "an object in relist of 4,000,000 takes deltafifo 2.00 × as long as one of 100,000 (at most 1.5): GROWS TOO FAST",
        "1.50 deltas per pop, 1 consumer",
        "NOT VALID: one is not the other",
    ] {
        assert!(page.contains(text), "no {text:?}");
    }
    assert!(json.contains("\"disagree\": \"one is not the other\""), "{json}");
    let error = report.sound().expect_err("it is not valid");
    assert!(error.to_string().contains("one is not the other"));
}

#[test]
fn plot_is_of_the_number_of_objects_that_most_engines_have() {
    let rows = [
        row("relist", "", "deltafifo", 10, "s", 1.0),
        row("relist", "", "mutex", 10, "s", 1.0),
        row("relist", "", "deltafifo", 40, "s", 1.0),
    ];
    let (_, plots) = write(&rows);
    let (_, relist) = plots.iter().find(|(name, _)| name == "relist").expect("it is drawn");
    assert!(relist.contains("mutex"), "{relist}");
}

/// Returns the rows of one round's distribution, as the process of an engine prints them.
fn distribution(engine: EngineName, samples: u64, at: impl Fn(f64) -> f64) -> Vec<Measured> {
    let rows = [("add-p50", 0.5), ("add-p99", 0.99), ("add-p99.9", 0.999), ("add-max", 1.0)];
    let row = |(variant, quantile)| {
        let mut row = Row::new(Workload::Stall, variant, "s", at(quantile));
        row.extra.insert("samples".into(), samples.into());
        row.extra.insert("largest".into(), at(1.0).into());
        if variant == "add-p50" {
            row.extra.insert(
                "curve".into(),
                QUANTILES.map(|quantile| json!([quantile, at(quantile)])).into(),
            );
        }
        Measured::new(engine, 1000, row)
    };
    rows.map(row).into()
}

#[test]
fn plot_has_the_rounds_of_the_rows_and_no_percentile_of_few_samples() {
    // One is worse at the median, and the other at the maximum.
    let even = distribution(EngineName::DeltaFifo, 50_000, |quantile| 0.5 + quantile);
    let steep =
        distribution(EngineName::DeltaFifo, 50_000, |quantile| 0.1 + 9.0 * quantile.powi(20));
    let few = distribution(EngineName::Mutex, 35, |quantile| 2.0 + quantile);
    let rows = Summary::of(&[even, steep, few].concat(), 2);
    let row = |engine: EngineName, variant: &str| {
        rows.iter()
            .find(|row| row.engine == engine.name() && row.variant == variant)
            .expect("a row")
    };
    let place = |engine, quantile: f64| {
        let curve = row(engine, "add-p50").extra["curve"].as_array().expect("a curve");
        curve.iter().find(|place| place[0] == quantile).and_then(|place| place[1].as_f64())
    };
    assert_eq!(place(EngineName::DeltaFifo, 0.5), Some(1.0));
    assert!(row(EngineName::DeltaFifo, "add-p99").median > 5.0);
    for (variant, quantile) in
        [("add-p50", 0.5), ("add-p99", 0.99), ("add-p99.9", 0.999), ("add-max", 1.0)]
    {
        let shown = row(EngineName::DeltaFifo, variant);
        assert_eq!(place(EngineName::DeltaFifo, quantile), Some(shown.median), "{variant}");
    }
    for (variant, quantile) in [("add-p99", 0.99), ("add-p99.9", 0.999), ("add-max", 1.0)] {
        assert_eq!(
            Some(row(EngineName::Mutex, variant).median),
            place(EngineName::Mutex, 1.0),
            "{variant}: the largest"
        );
        assert_eq!(place(EngineName::Mutex, quantile).is_some(), quantile >= 1.0, "{variant}");
    }
    assert_eq!(
        place(EngineName::Mutex, 0.5),
        Some(row(EngineName::Mutex, "add-p50").median),
        "17 samples lie beyond"
    );
    assert_eq!(place(EngineName::DeltaFifo, 0.9999), None, "five of 50,000 samples lie beyond");

    let rows: Vec<_> = rows.iter().map(|row| serde_json::to_value(row).expect("JSON")).collect();
    let (page, plots) = write(&rows);
    assert!(page.contains("the largest of 35 samples, too few for a percentile"));
    assert!(page.contains("50,000 samples") && page.contains("ONLY 1 of 2 rounds"));
    let (_, plot) = plots.iter().find(|(name, _)| name == "stall-add").expect("it is drawn");
    assert!(plot.lines().any(|line| line == "35 samples"), "{plot}");
}

#[test]
fn engine_whose_turn_failed_is_named_beside_the_figures() {
    let mut report = report(&[
        row("stall", "add-max", "mutex", 10, "s", 1.0),
        row("churn", "", "mutex", 10, "s", 1.0),
    ]);
    let missed = |engine: &str, message: &str| {
        Missed::new(engine.to_owned(), 10, vec!["stall".to_owned()], message)
    };
    let failed = missed("dashmap", "round 1/1: dashmap: /a/b/relist does not start");
    report.runs[0].failed.push(failed);
    report.runs[0].unfinished.push(missed("deltafifo", "round 1/1: deltafifo"));
    let (page, ..) = write_report(&report);
    assert_eq!(page.matches("NOT MEASURED").count(), 2, "of stall, and not of churn");
    let failure = "A turn failed: round 1/1: dashmap: relist does not start";
    assert!(page.contains(failure), "without the path");
    let text = print(&report);
    for engine in ["dashmap", "deltafifo"] {
        assert!(
            text.lines().any(|line| line.contains(engine) && line.contains("NOT MEASURED")),
            "{text}"
        );
    }
}

#[test]
fn page_lists_where_deltafifo_is_behind() {
    let rows = [
        row("stall", "handled-p99", "deltafifo", 10, "s", 3.0),
        row("stall", "handled-p99", "dashmap", 10, "s", 1.0),
        row("stall", "add-p99", "deltafifo", 10, "s", 1.0),
        row("stall", "add-p99", "dashmap", 10, "s", 1.0),
    ];
    let (page, _) = write(&rows);
    assert!(page.contains("<dt>stall handled-p99, 10</dt><dd>dashmap 3.00 ×</dd></dl>"), "{page}");
    assert!(print(&report(&rows)).contains("dashmap 3.00 ×"));
}
