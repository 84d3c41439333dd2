//! What the terminal gets at the end.

use std::fmt::Write;

use super::{Report, Summary};
use crate::engines::EngineName;
use crate::workloads::Workload;

/// The least ratio of client-go-deltafifo to mutex: a baseline that were slower would flatter whoever is compared with it.
const LEAST_BASE_RATIO: f64 = 2.3;

/// The whole report. `engines` and `workloads` are what was asked for; what an engine cannot do is a `-`.
#[must_use]
pub fn print(report: &Report, engines: &[EngineName], workloads: &[Workload]) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{}, {} cores, {}, Linux {}; {} in Rust",
        machine.cpu,
        machine.cores,
        bytes(machine.memory_bytes),
        machine.kernel,
        machine.allocator
    );
    for engine in engines {
        let _ = writeln!(text, "  {engine:<20} {}", machine.engines.get(engine.name()).map_or("-", String::as_str));
    }
    for workload in workloads {
        let rows = || report.rows.iter().filter(|row| row.workload == workload.name());
        let mut variants: Vec<&str> = Vec::new();
        for row in rows() {
            if !variants.contains(&row.variant.as_str()) {
                variants.push(&row.variant);
            }
        }
        for variant in variants {
            let rows: Vec<_> = rows().filter(|row| row.variant == variant).collect();
            text.push_str(&table(*workload, variant, &rows, engines));
        }
    }
    text.push_str(&base_ratio(&report.rows));
    text
}

/// One workload's or variant's table.
fn table(workload: Workload, variant: &str, rows: &[&Summary], engines: &[EngineName]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else { return text };
    let of = |engine: EngineName| rows.iter().copied().find(|row| row.engine == engine.name());
    let base = of(EngineName::DeltaFifo).unwrap_or(first);
    let title = format!("{workload} {variant}");
    let against = format!("÷ {}", base.engine);
    let _ = writeln!(
        text,
        "\n{:<28} {:>11} {:>23} {:>11} {:>15}",
        format!("{}, {} objects", title.trim(), first.objects),
        "median",
        "min .. max",
        "peak − start",
        against
    );
    for engine in engines {
        let Some(row) = of(*engine) else {
            let _ = writeln!(text, "  {engine:<26} {:>11} {:>23} {:>12} {:>15}", "-", "-", "-", "-");
            continue;
        };
        let figure = |value| figure(value, &row.unit);
        let peak = row.peak_over_start().map_or_else(|| "-".to_owned(), bytes);
        let _ = writeln!(
            text,
            "  {engine:<26} {:>11} {:>23} {:>12} {:>15}",
            figure(row.median),
            format!("{} .. {}", figure(row.min), figure(row.max)),
            peak,
            format!("{:.2} ×", row.times_slower_than(base))
        );
    }
    text
}

fn base_ratio(rows: &[Summary]) -> String {
    let relist = |engine: EngineName| {
        rows.iter().find(|row| row.workload == Workload::Relist.name() && row.engine == engine.name())
    };
    let (Some(mutex), Some(go)) = (relist(EngineName::Mutex), relist(EngineName::ClientGoDeltaFifo)) else {
        return String::new();
    };
    let ratio = go.times_slower_than(mutex);
    let verdict = if ratio >= LEAST_BASE_RATIO { "as it must be" } else { "TOO SLOW A BASE for ratios to mutex" };
    format!(
        "\nbase of the ratios: mutex is {ratio:.2} × client-go-deltafifo on relist (at least {LEAST_BASE_RATIO}): {verdict}\n"
    )
}

fn figure(value: f64, unit: &str) -> String {
    match unit {
        "1/s" => format!("{:.3} M/s", value / 1e6),
        "s" if value >= 0.1 => format!("{value:.3} s"),
        "s" if value >= 1e-4 => format!("{:.2} ms", value * 1e3),
        "s" => format!("{:.1} µs", value * 1e6),
        "B" => format!("{value:.1} B/key"),
        _ => format!("{value} {unit}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn bytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes >= 10_000.0 { format!("{:.1} GB", megabytes / 1e3) } else { format!("{megabytes:.0} MB") }
}
