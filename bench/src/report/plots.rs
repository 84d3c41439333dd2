//! The plots of a report as SVG: the time of a relist, the time of an add during relists, and the
//! bytes of a cached pod. Each plot has a row for each engine, with a mark at each of its values,
//! and with two columns of text.

use std::io;
use std::time::Duration;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::{count, figure, times};
use super::groups::{base, distinct};
use super::percentile::is_the_largest;
use super::{Report, Summary};
use crate::names::{EngineName, Workload};

// Sizes in pixels. The width fits a phone.
const WIDTH: i32 = 400;
const TOP: i32 = 52;
const ROW: i32 = 24;
const AXIS: i32 = 26;
/// The width of the column with the names of the engines.
const NAMES: i32 = 138;
/// The width of each of the two columns of text.
const FIGURE: i32 = 65;
const FONT: f64 = 13.0;

// Colours that are readable on white and on black.
const TEXT: RGBColor = RGBColor(0x76, 0x76, 0x76);
const GRID: RGBColor = RGBColor(0x80, 0x80, 0x80);
const OURS: RGBColor = RGBColor(0x1f, 0x78, 0xd1);
const OTHERS: RGBColor = RGBColor(0xc7, 0x6b, 0x0a);

/// The percentiles of an add that a plot has, by their variants.
const ADDS: [&str; 4] = ["add-p50", "add-p99", "add-p99.9", "add-max"];

/// The error of a plot that cannot be drawn.
type Undrawn = DrawingAreaErrorKind<io::Error>;

/// A row of a plot.
struct Line<'a> {
    engine: &'a str,
    values: Vec<f64>,
    figures: [String; 2],
}

/// Returns the name and the SVG of each plot for which the report has rows.
pub(super) fn plots(report: &Report) -> Result<Vec<(&'static str, String)>, Undrawn> {
    let rows = &report.rows;
    let relist = spread(rows, (Workload::Relist, ""), "relist of # objects", label);
    let rest = spread(rows, (Workload::Cache, "rest-bytes"), "bytes a pod of #", |bytes| {
        figure(bytes, "B")
    });
    let all = [("relist", relist), ("stall-add", adds(rows)), ("rest-bytes", rest)];
    let drawn = |(name, svg): (_, Result<Option<String>, Undrawn>)| {
        svg.map(|svg| svg.map(|svg| (name, svg))).transpose()
    };
    all.into_iter().filter_map(drawn).collect()
}

/// Draws the smallest, the median and the largest value of a variant. A `#` in `title` is replaced
/// by the number of objects.
fn spread(
    rows: &[Summary],
    (workload, variant): (Workload, &str),
    title: &str,
    label: fn(f64) -> String,
) -> Result<Option<String>, Undrawn> {
    let rows = widest(rows, |row| row.workload == workload.name() && row.variant == variant);
    let Some(base) = base(&rows) else { return Ok(None) };
    let lines: Vec<_> = rows
        .iter()
        .map(|row| Line {
            engine: &row.engine,
            values: vec![row.min, row.median, row.max],
            figures: [
                figure(row.median, &row.unit),
                row.times_slower_than(base).map(times).unwrap_or_default(),
            ],
        })
        .collect();
    let title = format!("{}: least, median, most", title.replace('#', &count(base.objects)));
    draw(&title, ["median", "ratio"], &lines, label).map(Some)
}

/// Draws the percentiles of an add during relists. A percentile of too few samples is left out.
fn adds(rows: &[Summary]) -> Result<Option<String>, Undrawn> {
    let is_add = |row: &Summary| {
        row.workload == Workload::Stall.name() && ADDS.contains(&row.variant.as_str())
    };
    let rows = widest(rows, is_add);
    let Some(first) = rows.first() else { return Ok(None) };
    let lines: Vec<_> = distinct(rows.iter().map(|row| row.engine.as_str()))
        .into_iter()
        .map(|engine| {
            let median = |variant: &str| {
                let row = rows.iter().find(|row| row.engine == engine && row.variant == variant)?;
                (!is_the_largest(variant, &row.extra)).then_some(row.median)
            };
            let text = |variant| median(variant).map_or_else(String::new, |one| figure(one, "s"));
            let figures = [text(ADDS[2]), text(ADDS[3])];
            Line { engine, values: ADDS.into_iter().filter_map(median).collect(), figures }
        })
        .collect();
    let title = format!("add, {} objects: p50, p99, p99.9, longest", count(first.objects));
    draw(&title, ["p99.9", "longest"], &lines, label).map(Some)
}

/// Returns the wanted rows for one number of objects: the number that has the most rows, or the
/// largest such number if there are several. The largest number of all may have been measured with
/// few engines, if the run was interrupted, or if a run that measures the growth was joined to it.
fn widest(rows: &[Summary], wanted: impl Fn(&Summary) -> bool) -> Vec<&Summary> {
    let rows: Vec<_> = rows.iter().filter(|row| wanted(row)).collect();
    let count = |objects| rows.iter().filter(|row| row.objects == objects).count();
    let widest =
        rows.iter().map(|row| row.objects).max_by_key(|objects| (count(*objects), *objects));
    rows.into_iter().filter(|row| Some(row.objects) == widest).collect()
}

/// Draws a row for each line over a logarithmic axis. `label` returns the label of a power of ten.
/// `headers` are the headers of the two columns of text.
fn draw(
    title: &str,
    headers: [&str; 2],
    lines: &[Line],
    label: fn(f64) -> String,
) -> Result<String, Undrawn> {
    let (low, high) = ends(lines.iter().flat_map(|line| &line.values));
    let height = TOP + AXIS + lines.iter().map(|_| ROW).sum::<i32>();
    let mut svg = String::new();
    {
        let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let write = |text: &str, at: (i32, i32), side: HPos, style: FontStyle| {
            let style = font(style).color(&TEXT).pos(Pos::new(side, VPos::Center));
            area.draw(&Text::new(text.to_owned(), at, style))
        };
        let columns = [WIDTH - FIGURE - 4, WIDTH - 4];
        write(title, (4, 14), HPos::Left, FontStyle::Bold)?;
        for (header, x) in headers.into_iter().zip(columns) {
            write(header, (x, TOP - 12), HPos::Right, FontStyle::Normal)?;
        }
        let inner = area.margin(TOP, 0, NAMES, 2 * FIGURE);
        let mut chart = ChartBuilder::on(&inner)
            .x_label_area_size(AXIS)
            .build_cartesian_2d((low..high).log_scale(), 0.0..1.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(GRID.mix(0.35))
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .x_labels(4)
            .x_label_style(font(FontStyle::Normal).color(&TEXT))
            .x_label_formatter(&|value| label(*value))
            .draw()?;
        for (line, row) in lines.iter().zip(0..) {
            let y = TOP + row * ROW + ROW / 2;
            let is_ours = line.engine == EngineName::DeltaFifo.name();
            let (colour, style) =
                if is_ours { (OURS, FontStyle::Bold) } else { (OTHERS, FontStyle::Normal) };
            if is_ours {
                let band = [(0, y - ROW / 2), (WIDTH, y + ROW / 2)];
                area.draw(&Rectangle::new(band, colour.mix(0.14).filled()))?;
            }
            let place = |value: &f64| (chart.backend_coord(&(value.clamp(low, high), 0.0)).0, y);
            let places: Vec<_> = line.values.iter().map(place).collect();
            for place in &places {
                area.draw(&Circle::new(*place, 4, colour.filled()))?;
            }
            area.draw(&PathElement::new(places, colour.stroke_width(2)))?;
            write(line.engine, (NAMES - 12, y), HPos::Right, style)?;
            for (figure, x) in line.figures.iter().zip(columns) {
                write(figure, (x, y), HPos::Right, style)?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}

/// Returns the ends of an axis for all positive values: just outside powers of ten, so that
/// rounding does not lose their labels.
fn ends<'a>(values: impl Iterator<Item = &'a f64>) -> (f64, f64) {
    let positive = values.copied().filter(|value| value.is_normal() && *value > 0.0);
    let logarithms = positive.map(f64::log10);
    let (low, high) = logarithms
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
    let (low, high) = if low <= high { (low, high) } else { (-6.0, 0.0) };
    (0.99 * 10_f64.powf(low.floor()), 1.01 * 10_f64.powf(high.floor() + 1.0))
}

/// Returns the label of a power of ten, as in `10ms`.
fn label(seconds: f64) -> String {
    format!("{:?}", Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Returns the font of all texts. In SVG, `plotters` makes a font smaller by the factor 1.24.
fn font(style: FontStyle) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, FONT * 1.24, style)
}
