//! The page: the machine, the plots, and every figure as text. It needs no other file, no script and no font.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figure::{bytes, count, figure, times};
use super::plots::{Section, style_sheet};
use super::sanity::sanity;
use super::summary::distinct;
use super::table::{base, groups};
use super::{Report, Summary};

/// The whole page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    let style = format!("{}{}", include_str!("page.css"), style_sheet());
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "deltafifo and its peers" }
                style { (PreEscaped(style)) }
            }
            body {
                header { (head(report)) }
                main {
                    @for section in sections { (plots(section)) }
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
                dt { "Rounds" } dd { (run.rounds) ", interleaved; medians" }
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
    let has_remarks = rows.iter().any(|row| !row.remarks().is_empty());
    let against = base(&rows).map_or("-", |base| &base.engine);
    html! {
        h3 { (workload) }
        div.scroll tabindex="0" role="region" aria-label={ "Figures of " (workload) } {
            table {
                thead {
                    tr {
                        @if has_variants { th { "variant" } }
                        th { "engine" } th.number { "objects" } th.number { "median" } th.number { "min" }
                        th.number { "max" } th.number { "÷ " (against) } th.number { "peak − start" }
                        @if has_remarks { th { "remarks" } }
                    }
                }
                @for group in groups(&rows) {
                    tbody { @for row in &group { (line(row, base(&group), has_variants, has_remarks)) } }
                }
            }
        }
    }
}

fn line(row: &Summary, base: Option<&Summary>, has_variants: bool, has_remarks: bool) -> Markup {
    let figure = |value| figure(value, &row.unit);
    let ratio = base.and_then(|base| row.times_slower_than(base)).map_or_else(|| "-".to_owned(), times);
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
