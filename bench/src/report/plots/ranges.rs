//! Plots with one row for each engine: a mark at the median, a whisker from the smallest to the
//! largest value, and the figure as text. On an axis that starts at zero, the row also has a bar.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::Summary;
use super::super::figure::{figure, times};
use super::super::groups::base;
use super::canvas::{self, Drawn, TITLE_HEIGHT, WIDTH};
use super::scale::{Scale, label};
use super::style::{GRID, style};

const ROW: i32 = 24;
const NAMES: i32 = 138;
const FIGURES: i32 = 130;
const AXIS: i32 = 26;
/// Number of labels for which the axis has room.
pub const ROOM: f64 = 4.0;

/// Draws the rows of one group.
pub fn draw(title: &str, rows: &[&Summary], scale: &Scale) -> Drawn<String> {
    canvas::draw(TITLE_HEIGHT + canvas::lines(rows.len(), ROW) + AXIS, title, |area| {
        let unit = rows.first().map_or("", |row| row.unit.as_str());
        let inner = area.margin(TITLE_HEIGHT, 0, NAMES, FIGURES);
        let mut chart = ChartBuilder::on(&inner)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(scale.clone(), 0.0..1.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(GRID.mix(0.35))
            .axis_style(GRID)
            .x_label_style(canvas::label_style())
            .x_label_formatter(&|value| label(*value, unit))
            .draw()?;
        let base = base(rows);
        for (row, line) in rows.iter().zip(0..) {
            let y = TITLE_HEIGHT + line * ROW + ROW / 2;
            let x = |value| chart.backend_coord(&(value, 0.0)).0;
            let style = style(&row.engine);
            let half = ROW / 2;
            if style.strong {
                let band = [(0, y - half), (WIDTH, y + half)];
                area.draw(&Rectangle::new(band, style.colour.mix(0.14).filled()))?;
            }
            let (low, middle, high) = (x(row.min), x(row.median), x(row.max));
            if !scale.is_logarithmic() {
                let bar = [(x(0.0), y - half / 2), (middle, y + half / 2)];
                area.draw(&Rectangle::new(bar, style.colour.mix(0.35).filled()))?;
            }
            let width = if style.strong { 3 } else { 2 };
            canvas::stroke(area, vec![(low, y), (high, y)], style.colour, width)?;
            for end in [low, high] {
                canvas::stroke(area, vec![(end, y - 4), (end, y + 4)], style.colour, width)?;
            }
            canvas::mark(area, (middle, y), style)?;
            let write = |text: &str, x, bold| canvas::write(area, text, (x, y), HPos::Right, bold);
            write(&row.engine, NAMES - 12, style.strong)?;
            write(&figure(row.median, &row.unit), WIDTH - 56, style.strong)?;
            let ratio = base
                .filter(|base| base.engine != row.engine)
                .and_then(|base| row.times_slower_than(base));
            if let Some(ratio) = ratio {
                write(&times(ratio), WIDTH - 4, false)?;
            }
        }
        Ok(())
    })
}
