//! The page of a report: the machine, the plots, and every figure as text. It needs no other file,
//! script or font.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::behind::{BEHIND, behind};
use super::figure::{bytes, count, figure, times};
use super::groups::{base, distinct, groups};
use super::plots::Section;
use super::sanity::sanity;
use super::table::MISSING;
use super::{Report, Summary};

/// Returns the whole page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "deltafifo and its peers" }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header { (head(report)) }
                main {
                    @for section in sections { (plots(section)) }
                    @if !report.rows.is_empty() { (behind_list(&report.rows)) }
                    h2 { "All figures" }
                    @if report.rows.is_empty() { p { "Nothing was measured." } }
                    @for workload in distinct(report.rows.iter().map(|row| row.workload.as_str())) {
                        (table(report, workload))
                    }
                }
                footer { p { "The same plots are beside this page as SVG files, the same figures as " code { "rows.json" } "." } }
            }
        }
    };
    markup.into_string()
}

/// The text that says how the rounds of a figure are summarised.
const MEDIANS: &str = "medians, of an even number of rounds the worse of the two in the middle";

fn head(report: &Report) -> Markup {
    let machine = &report.machine;
    html! {
        h1 { "deltafifo and its peers" }
        @for run in &report.runs { p { code { (run.command) } } }
        @for warning in report.warnings() { p.warning { (warning) } }
        dl {
            @for run in &report.runs {
                dt { "Date" } dd { (run.date) ", commit " (run.commit) }
                dt { "Check" } dd { (run.verdict.sentence()) }
                dt { "Rounds" } dd { (run.rounds) ", interleaved; " (MEDIANS) }
            }
            dt { "Machine" }
            dd { (machine.cpu) ", " (machine.cores) " cores, " (bytes(machine.memory_bytes)) ", Linux " (machine.kernel) }
            dt { "Allocator" } dd { (machine.allocator) " (engines in Rust)" }
        }
        @for sentence in sanity(&report.rows) { p { (sentence) } }
        details {
            summary { "The engines and their versions" }
            dl {
                @for engine in report.engines() {
                    dt { (engine) } dd { (machine.engines.get(engine).map_or("-", String::as_str)) }
                }
            }
        }
    }
}

fn plots(section: &Section) -> Markup {
    html! {
        h2 { (section.title) }
        p { (section.note) }
        div.plots {
            @for plot in &section.plots {
                div.plot role="img" aria-label={ (plot.title) ": the figures are in the tables below" } {
                    (PreEscaped(&plot.svg))
                }
            }
        }
    }
}

fn table(report: &Report, workload: &str) -> Markup {
    let rows: Vec<_> = report.rows.iter().filter(|row| row.workload == workload).collect();
    let has_variants = rows.iter().any(|row| !row.variant.is_empty());
    let groups = groups(&rows);
    let has_remarks = rows.iter().any(|row| !row.remarks().is_empty());
    // A group without deltafifo is compared with another engine.
    let bases = distinct(groups.iter().filter_map(|group| Some(base(group)?.engine.as_str())));
    html! {
        h3 { (workload) }
        div.scroll tabindex="0" role="region" aria-label={ "Figures of " (workload) } {
            table {
                thead {
                    tr {
                        @if has_variants { th { "variant" } }
                        th { "engine" } th.number { "objects" } th.number { "median" } th.number { "min" }
                        th.number { "max" } th.number { "÷ " (bases.join(" or ")) } th.number { "peak − start" }
                        @if has_remarks { th { "remarks" } }
                    }
                }
                @for group in &groups {
                    tbody {
                        @for row in group { (line(row, base(group), has_variants, has_remarks)) }
                        @for engine in report.missing(group) { (missing(engine, group, has_variants)) }
                    }
                }
            }
        }
    }
}

fn line(row: &Summary, base: Option<&Summary>, has_variants: bool, has_remarks: bool) -> Markup {
    let figure = |value| figure(value, &row.unit);
    let ratio =
        base.and_then(|base| row.times_slower_than(base)).map_or_else(|| "-".to_owned(), times);
    html! {
        tr {
            @if has_variants { td { (row.variant) } }
            td { (row.engine) } td.number { (count(row.objects)) }
            td.number { (figure(row.median)) } td.number { (figure(row.min)) } td.number { (figure(row.max)) }
            td.number { (ratio) } td.number { (row.peak_over_start().map_or_else(|| "-".to_owned(), bytes)) }
            @if has_remarks { td { (row.remarks()) } }
        }
    }
}

/// Returns the table row for an engine that has no figure in `group`, although it should have one.
fn missing(engine: &str, group: &[&Summary], has_variants: bool) -> Markup {
    html! {
        @if let Some(row) = group.first() {
            tr {
                @if has_variants { td { (row.variant) } }
                td { (engine) } td.number { (count(row.objects)) } td colspan="6" { (MISSING) }
            }
        }
    }
}

/// Returns the list of figures in which another engine is better.
fn behind_list(rows: &[Summary]) -> Markup {
    html! {
        h2 id="behind" { "Where deltafifo loses" }
        p { (BEHIND) }
        details open {
            summary { "Figures" }
            dl { @for behind in behind(rows) { dt { (behind.figure) } dd { (behind.ahead.join(", ")) } } }
        }
    }
}
