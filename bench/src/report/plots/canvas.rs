//! The drawing functions of all plots. The sizes fit the width of a phone; the page enlarges the
//! plots if there is room.

use std::io;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Mark, Style, TEXT};

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of drawing. Drawing into a string cannot fail, but the backends of `plotters` may.
pub type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

pub const WIDTH: i32 = 400;
const TITLE: i32 = 14;
const LABEL: i32 = 13;
/// The height of a title, in pixels.
pub const TITLE_HEIGHT: i32 = 30;

/// Draws an SVG of this height in pixels, with a title.
pub fn draw(height: i32, title: &str, content: impl FnOnce(&Area) -> Drawn) -> Drawn<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH.unsigned_abs(), height.unsigned_abs()))
            .into_drawing_area();
        let style =
            font(TITLE).style(FontStyle::Bold).color(&TEXT).pos(Pos::new(HPos::Left, VPos::Top));
        area.draw(&Text::new(title.to_owned(), (4, 6), style))?;
        content(&area)?;
        area.present()?;
    }
    Ok(svg)
}

/// Returns the height of `count` lines that are `height` pixels high each.
pub fn lines(count: usize, height: i32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX).saturating_mul(height)
}

/// Returns a font of this size in pixels. The size is corrected by the factor that the SVG backend
/// of `plotters` applies.
fn font(size: i32) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, f64::from(size) * 1.24, FontStyle::Normal)
}

/// Returns the style for the labels that `plotters` writes.
pub fn label_style() -> TextStyle<'static> {
    font(LABEL).color(&TEXT)
}

/// Writes `text` vertically centred, with its left or right end (`side`) at the point `at`.
pub fn write(area: &Area, text: &str, at: (i32, i32), side: HPos, bold: bool) -> Drawn {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let style = font(LABEL).style(style).color(&TEXT).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// Draws a line through points.
pub fn stroke(area: &Area, places: Vec<(i32, i32)>, colour: RGBColor, width: u32) -> Drawn {
    area.draw(&PathElement::new(places, colour.stroke_width(width)))
}

/// Draws the mark of an engine, the symbol by which the plots show it, at a point.
pub fn mark(area: &Area, (x, y): (i32, i32), style: Style) -> Drawn {
    let colour = style.colour;
    let size = if style.strong { 6 } else { 5 };
    let shape = |corners: &[(i32, i32)]| -> Vec<_> {
        corners.iter().map(|(dx, dy)| (x + dx * size / 4, y + dy * size / 4)).collect()
    };
    let filled = |corners: &[(i32, i32)]| area.draw(&Polygon::new(shape(corners), colour.filled()));
    match style.mark {
        Mark::Disc => area.draw(&Circle::new((x, y), size, colour.filled())),
        Mark::Ring => area.draw(&Circle::new((x, y), size, colour.stroke_width(2))),
        Mark::Square => filled(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        Mark::Diamond => filled(&[(-5, 0), (0, -5), (5, 0), (0, 5)]),
        Mark::Up => filled(&[(-5, 4), (0, -5), (5, 4)]),
        Mark::Down => filled(&[(-5, -4), (0, 5), (5, -4)]),
        Mark::Right => filled(&[(-4, -5), (5, 0), (-4, 5)]),
        Mark::Left => filled(&[(4, -5), (-5, 0), (4, 5)]),
        Mark::Tent => stroke(area, shape(&[(-5, 4), (0, -5), (5, 4), (-5, 4)]), colour, 2),
        Mark::Lozenge => {
            stroke(area, shape(&[(-5, 0), (0, -5), (5, 0), (0, 5), (-5, 0)]), colour, 2)
        }
        Mark::Box => {
            stroke(area, shape(&[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)]), colour, 2)
        }
        Mark::Plus => {
            stroke(area, shape(&[(-5, 0), (5, 0)]), colour, 2)?;
            stroke(area, shape(&[(0, -5), (0, 5)]), colour, 2)
        }
        Mark::Cross => {
            stroke(area, shape(&[(-4, -4), (4, 4)]), colour, 2)?;
            stroke(area, shape(&[(-4, 4), (4, -4)]), colour, 2)
        }
    }
}
