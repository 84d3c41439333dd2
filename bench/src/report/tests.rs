//! Tests that a report shows all of its figures and warnings, including unusual ones.

use serde_json::{Value, json};

use super::medians::medians;
use super::{Missed, Report, Summary, Verdict, print};
use crate::names::{EngineName, Workload};
use crate::protocol::{Measured, Row};

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

fn report(rows: &[Value]) -> Report {
    let machine = json!({
        "cpu": "A CPU", "cores": 2, "memory_bytes": 8_000_000_000_u64, "kernel": "6.1", "allocator": "one 1.2",
        "engines": { "deltafifo": "deltafifo 0.1 of today" }
    });
    let run = json!({ "date": "2026-11-21T12:00:00Z", "command": "relist --json 'a b'", "commit": "0123456", "rounds": 3, "complete": true });
    serde_json::from_value(json!({ "format": 2, "runs": [run], "machine": machine, "rows": rows }))
        .expect("it is a report")
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn text_and_medians_have_every_engine_and_every_figure() {
    let mut rows = Vec::new();
    for (engine, value) in EngineName::ALL.iter().zip(1_u8..) {
        let (engine, value) = (engine.name(), f64::from(value));
        rows.extend([
            row("relist", "", engine, 10_000, "s", value / 100.0),
            row("relist", "", engine, 1_000_000, "s", value),
            row("events", "uniform-1x1", engine, 1_000_000, "1/s", value * 1e6),
            row("memory", "idle", engine, 1_000_000, "B", value * 64.0),
        ]);
    }
    let report = report(&rows);
    let (text, medians) = (print(&report), medians(&report));
    for engine in EngineName::ALL {
        assert_has(&text, &[engine.name()]);
        assert_has(&medians, &[&format!(" {engine} |")]);
    }
    assert_has(
        &text,
        &["A CPU, 2 cores, 8.00 GB", "deltafifo 0.1 of today", "5.00 ms .. 20.00 ms", "7.00 MB"],
    );
    assert_has(
        &medians,
        &[
            "| `relist --json 'a b'` | 3 | 0123456 | 2026-11-21T12:00:00Z |",
            "## 10,000 objects\n\n| figure | deltafifo |",
            "## 1,000,000 objects",
            "| relist | 10.00 ms | 20.00 ms |",
            "| events uniform-1x1 | 1.000 M/s | 2.000 M/s |",
            "| memory idle | 64.0 B |",
        ],
    );
}

#[test]
fn figure_that_an_engine_does_not_have_is_an_empty_cell() {
    let rows = [
        row("relist", "", "deltafifo", 10, "s", 1.0),
        row("nap", "long", "engine & sons", 10, "naps", 3.0),
    ];
    let medians = medians(&report(&rows));
    assert_has(&medians, &["| relist | 1.000 s |  |", "| nap long |  | 3 naps |"]);
    assert_has(&print(&report(&rows)), &["3 naps"]);
}

#[test]
fn invalid_run_is_reported_as_such() {
    let mut report = report(&[row("relist", "", "mutex", 10, "s", 2.0)]);
    report.runs[0].verdict = Verdict::Disagree("one is not the other".to_owned());
    assert_has(&print(&report), &["NOT VALID: one is not the other"]);
    assert_has(&report.json(), &["\"disagree\": \"one is not the other\""]);
    let error = report.sound().expect_err("it is not valid");
    assert_has(&error.to_string(), &["one is not the other"]);
}

#[test]
fn missing_rounds_and_percentiles_of_few_samples_are_remarked() {
    let measured = |engine, samples: u64, variant: &str| {
        let mut row = Row::new(Workload::Stall, variant, "s", 1.0);
        row.extra.insert("samples".into(), samples.into());
        row.extra.insert("largest".into(), 3.0.into());
        Measured::new(engine, 1000, row)
    };
    let rows = [
        measured(EngineName::DeltaFifo, 50_000, "add-p99"),
        measured(EngineName::DeltaFifo, 50_000, "add-p99"),
        measured(EngineName::Mutex, 35, "add-p99"),
    ];
    let rows: Vec<_> = Summary::of(&rows, 2).iter().map(serde_json::to_value).collect();
    let rows: Vec<_> = rows.into_iter().map(|row| row.expect("JSON")).collect();
    let text = print(&report(&rows));
    assert_has(&text, &["50,000 samples", "the largest of 35 samples, too few for a percentile"]);
    assert_eq!(text.matches("ONLY 1 of 2 rounds").count(), 1, "{text}");
}

#[test]
fn engine_whose_turn_failed_has_a_line_without_figures_and_a_warning() {
    let mut report = report(&[row("stall", "add-max", "mutex", 10, "s", 1.0)]);
    let message = "round 1/1: dashmap: /a/b/relist does not start";
    let failed = Missed::new("dashmap".to_owned(), 10, vec!["stall".to_owned()], message);
    report.runs[0].failed.push(failed);
    let text = print(&report);
    let is_empty = |line: &str| line.starts_with("  dashmap") && line.ends_with('-');
    assert!(text.lines().any(is_empty), "{text}");
    assert_has(&text, &["WARNING: A turn failed: round 1/1: dashmap: relist does not start"]);
}

#[cfg(feature = "peers")]
mod plots {
    use super::super::page::page;
    use super::super::plots::plots;
    use super::{EngineName, assert_has, json, report, row};

    #[test]
    fn plots_have_every_engine_of_the_number_of_objects_that_most_engines_have() {
        let mut rows = vec![
            row("relist", "", "deltafifo", 4_000_000, "s", 1.0),
            row("relist", "owned", "unknown", 10, "s", 1.0),
        ];
        for engine in EngineName::ALL {
            rows.push(row("relist", "", engine.name(), 1_000_000, "s", 0.5));
            rows.push(row("stall", "add-p99.9", engine.name(), 1_000_000, "s", 1e-3));
            rows.push(row("cache", "rest-bytes", engine.name(), 1_000_000, "B", 833.0));
        }
        let drawn = plots(&report(&rows)).expect("they are drawn");
        let names: Vec<_> = drawn.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["relist", "stall-add", "rest-bytes"]);
        for (name, svg) in drawn {
            let has = |text: &str| svg.lines().any(|line| line == text);
            assert!(EngineName::ALL.iter().all(|engine| has(engine.name())), "{name}: {svg}");
            assert!(!has("unknown") && svg.contains("1,000,000"), "{name}: {svg}");
        }
    }

    #[test]
    fn page_has_every_median_and_plot_and_escapes_texts() {
        let rows = [row("relist", "<b>", "a & b", 10, "s", 1.0)];
        let page = page(&report(&rows), &[("relist", "<svg></svg>".to_owned())]);
        let row = "<tr><td>relist &lt;b&gt;</td><td>1.000 s</td></tr>";
        assert_has(&page, &["<svg></svg>", "<th>a &amp; b</th>", row]);
        assert!(!page.contains("<b>"), "{page}");
    }

    #[test]
    fn unusual_values_are_drawn_and_percentiles_of_few_samples_are_not() {
        for value in [0.0, 1e-300, 1e300] {
            let rows = [
                row("relist", "", "deltafifo", 10, "s", value),
                row("relist", "", "floor", 10, "s", 0.0),
            ];
            let drawn = plots(&report(&rows)).expect("it is drawn");
            assert_eq!(drawn.len(), 1);
            assert!(!drawn[0].1.contains("NaN") && !drawn[0].1.contains("inf"), "{}", drawn[0].1);
        }
        let mut few = row("stall", "add-p99.9", "mutex", 10, "s", 2.0);
        few["extra"] = json!({ "samples": 35, "largest": 2.0 });
        let drawn = plots(&report(&[few])).expect("it is drawn");
        assert!(!drawn[0].1.contains("2.000 s"), "{}", drawn[0].1);
        assert!(plots(&report(&[])).expect("none").is_empty());
    }
}
