//! What all plots draw with. Sizes are those of a phone's width; the page draws them larger where
//! there is room.

use std::io;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::look::{Ink, Look, Mark, TEXT};

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Nothing can fail while drawing into a string, but plotters' backends are allowed to.
pub type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

pub const WIDTH: i32 = 400;
const TITLE: i32 = 14;
const LABEL: i32 = 13;
/// What a title takes of a plot's height.
pub const TITLE_HEIGHT: i32 = 30;

/// Makes one SVG of this height, with its title.
pub fn draw(height: i32, title: &str, content: impl FnOnce(&Area) -> Drawn) -> Drawn<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH.unsigned_abs(), height.unsigned_abs()))
            .into_drawing_area();
        let style = font(TITLE)
            .style(FontStyle::Bold)
            .color(&TEXT.file)
            .pos(Pos::new(HPos::Left, VPos::Top));
        area.draw(&Text::new(title.to_owned(), (4, 6), style))?;
        content(&area)?;
        area.present()?;
    }
    Ok(svg)
}

/// The height of so many lines.
pub fn lines(count: usize, height: i32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX).saturating_mul(height)
}

/// In pixels, which plotters' SVG has by a factor.
fn font(size: i32) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, f64::from(size) * 1.24, FontStyle::Normal)
}

/// A label's style, for what plotters itself writes.
pub fn label_style() -> TextStyle<'static> {
    font(LABEL).color(&TEXT.file)
}

/// Writes at a place, on its left or right, at half of its height.
pub fn write(area: &Area, text: String, at: (i32, i32), side: HPos, ink: Ink, bold: bool) -> Drawn {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let style = font(LABEL).style(style).color(&ink.file).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text, at, style))
}

/// A stroke through places.
pub fn stroke(area: &Area, places: Vec<(i32, i32)>, ink: Ink, width: u32) -> Drawn {
    area.draw(&PathElement::new(places, ink.file.stroke_width(width)))
}

/// An engine's mark.
pub fn mark(area: &Area, (x, y): (i32, i32), look: Look) -> Drawn {
    let ink = look.ink;
    let size = if look.strong { 6 } else { 5 };
    let shape = |corners: &[(i32, i32)]| -> Vec<_> {
        corners.iter().map(|(dx, dy)| (x + dx * size / 4, y + dy * size / 4)).collect()
    };
    let filled =
        |corners: &[(i32, i32)]| area.draw(&Polygon::new(shape(corners), ink.file.filled()));
    match look.mark {
        Mark::Disc => area.draw(&Circle::new((x, y), size, ink.file.filled())),
        Mark::Ring => area.draw(&Circle::new((x, y), size, ink.file.stroke_width(2))),
        Mark::Square => filled(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        Mark::Diamond => filled(&[(-5, 0), (0, -5), (5, 0), (0, 5)]),
        Mark::Up => filled(&[(-5, 4), (0, -5), (5, 4)]),
        Mark::Down => filled(&[(-5, -4), (0, 5), (5, -4)]),
        Mark::Right => filled(&[(-4, -5), (5, 0), (-4, 5)]),
        Mark::Left => filled(&[(4, -5), (-5, 0), (4, 5)]),
        Mark::Tent => stroke(area, shape(&[(-5, 4), (0, -5), (5, 4), (-5, 4)]), ink, 2),
        Mark::Lozenge => stroke(area, shape(&[(-5, 0), (0, -5), (5, 0), (0, 5), (-5, 0)]), ink, 2),
        Mark::Box => stroke(area, shape(&[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)]), ink, 2),
        Mark::Plus => {
            stroke(area, shape(&[(-5, 0), (5, 0)]), ink, 2)?;
            stroke(area, shape(&[(0, -5), (0, 5)]), ink, 2)
        }
        Mark::Cross => {
            stroke(area, shape(&[(-4, -4), (4, 4)]), ink, 2)?;
            stroke(area, shape(&[(-4, 4), (4, -4)]), ink, 2)
        }
    }
}
