//! Plots with one line for each engine over a horizontal axis, and a legend below.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Drawn, TITLE_HEIGHT, WIDTH};
use super::scale::{Scale, label};
use super::style::{GRID, Style, style};

const PLOT: i32 = 240;
const LABELS: i32 = 62;
const AXIS: i32 = 44;
const LEGEND_ROW: i32 = 20;
/// The horizontal position of the notes in a legend, in pixels: to the right of the longest name of
/// an engine.
const NOTE: i32 = 190;
/// The height of the gap above the legend, in pixels.
const GAP: i32 = 8;

/// Number of labels for which an axis has room.
pub const ROOM: f64 = 8.0;

/// A measured point.
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The smallest and the largest value of the rounds, if they are drawn.
    pub spread: Option<(f64, f64)>,
    /// Whether the engine's mark is drawn at this point. In a line with many points only some have
    /// it.
    pub marked: bool,
}

/// The line of an engine.
pub struct EngineLine<'a> {
    pub engine: &'a str,
    pub points: Vec<Point>,
    /// A point that the line does not reach; in a curve of percentiles it is the largest sample.
    pub apart: Option<Point>,
    /// A note after the name of the engine in the legend; empty if there is none.
    pub note: String,
}

impl<'a> EngineLine<'a> {
    /// Creates a line through these points.
    pub fn new(engine: &'a str, points: Vec<Point>) -> Self {
        Self { engine, points, apart: None, note: String::new() }
    }

    pub fn all(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().chain(&self.apart)
    }
}

/// A horizontal axis of a plot.
pub struct Across {
    pub scale: Scale,
    pub described: &'static str,
    pub label: fn(f64) -> String,
}

/// Draws the lines of all engines, with the line of this project on top of the others. The
/// vertical axis is in seconds.
pub fn draw(title: &str, lines: &[EngineLine], across: &Across, scale: &Scale) -> Drawn<String> {
    // A label with a note is too wide for two labels in a row.
    let in_a_row = if lines.iter().all(|line| line.note.is_empty()) { 2 } else { 1 };
    let below = canvas::lines(lines.len().div_ceil(in_a_row), LEGEND_ROW) + GAP;
    let height = TITLE_HEIGHT + PLOT + AXIS + below;
    canvas::draw(height, title, |area| {
        let inner = area.margin(TITLE_HEIGHT, below, 0, 16);
        let mut chart = ChartBuilder::on(&inner)
            .x_label_area_size(AXIS)
            .y_label_area_size(LABELS)
            .build_cartesian_2d(across.scale.clone(), scale.clone())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID.mix(0.35))
            .axis_style(GRID)
            .label_style(canvas::label_style())
            .axis_desc_style(canvas::label_style())
            .x_desc(across.described)
            .x_label_formatter(&|value| (across.label)(*value))
            .y_label_formatter(&|value| label(*value, "s"))
            .draw()?;
        let place = |point: &Point, value: f64| chart.backend_coord(&(point.x, value));
        let (strong, others): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| style(line.engine).strong);
        for line in others.into_iter().chain(strong) {
            let style = style(line.engine);
            let through = line.points.iter().map(|point| place(point, point.y)).collect();
            canvas::stroke(area, through, style.colour, width(style))?;
            for point in line.all() {
                if let Some((low, high)) = point.spread {
                    canvas::stroke(
                        area,
                        vec![place(point, low), place(point, high)],
                        style.colour,
                        1,
                    )?;
                }
                if point.marked {
                    canvas::mark(area, place(point, point.y), style)?;
                }
            }
        }
        legend(area, height - below + GAP, lines, in_a_row)
    })
}

fn width(style: Style) -> u32 {
    if style.strong { 4 } else { 2 }
}

fn legend(area: &Area, top: i32, lines: &[EngineLine], in_a_row: usize) -> Drawn {
    for (pair, row) in lines.chunks(in_a_row).zip(0..) {
        for (line, x) in pair.iter().zip([12, 12 + WIDTH / 2]) {
            let (style, y) = (style(line.engine), top + row * LEGEND_ROW + LEGEND_ROW / 2);
            canvas::stroke(area, vec![(x, y), (x + 36, y)], style.colour, width(style))?;
            canvas::mark(area, (x + 18, y), style)?;
            canvas::write(area, line.engine, (x + 44, y), HPos::Left, style.strong)?;
            canvas::write(area, &line.note, (x + NOTE, y), HPos::Left, false)?;
        }
    }
    Ok(())
}
