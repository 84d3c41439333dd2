//! The styles of engines: a colour for each family of engines, and a mark for each engine, so that
//! no two engines are distinguished by colour alone. The colours are readable on white and on
//! black.

use plotters::style::RGBColor;

pub const TEXT: RGBColor = RGBColor(0x76, 0x76, 0x76);
pub const GRID: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// The shape of a mark, the symbol of an engine that is drawn at its measured points.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Disc,
    Ring,
    Square,
    Box,
    Diamond,
    Lozenge,
    Up,
    Down,
    Right,
    Left,
    Plus,
    Cross,
    Tent,
}

/// The colour, mark and emphasis of an engine.
#[derive(Clone, Copy)]
pub struct Style {
    pub colour: RGBColor,
    pub mark: Mark,
    /// Whether the engine is emphasised.
    pub strong: bool,
}

/// The colours and marks of the engines.
const STYLES: [(&str, RGBColor, Mark); 13] = [
    ("deltafifo", RGBColor(0x1f, 0x78, 0xd1), Mark::Disc),
    ("deltafifo-skip", RGBColor(0x3d, 0x93, 0xc2), Mark::Ring),
    ("deltafifo-1-thread", RGBColor(0x2f, 0x8c, 0x96), Mark::Left),
    ("deltafifo-lane", RGBColor(0x5b, 0x6e, 0xe8), Mark::Right),
    ("deltafifo-single", RGBColor(0x6c, 0x7f, 0xa6), Mark::Tent),
    ("mutex", RGBColor(0xc7, 0x6b, 0x0a), Mark::Square),
    ("dashmap", RGBColor(0x2b, 0x8a, 0x50), Mark::Diamond),
    ("floor", RGBColor(0x86, 0x80, 0x78), Mark::Plus),
    ("kube-writer", RGBColor(0x9a, 0x5f, 0xd4), Mark::Cross),
    ("kube-writer-arc", RGBColor(0xa8, 0x72, 0xb8), Mark::Lozenge),
    ("client-go-deltafifo", RGBColor(0xd6, 0x40, 0x3a), Mark::Up),
    ("client-go-realfifo", RGBColor(0xcf, 0x5c, 0x92), Mark::Down),
    ("client-go-informer", RGBColor(0xa5, 0x66, 0x4e), Mark::Box),
];

/// The style of all others: clients of a server, engines that run only the workload `cache`, and
/// engines of another version of the tool. Their plots have no lines.
const OTHER: (RGBColor, Mark) = (RGBColor(0x70, 0x7b, 0x8a), Mark::Cross);

/// Returns the style of an engine.
pub fn style(engine: &str) -> Style {
    let known = STYLES.into_iter().find(|(name, ..)| *name == engine);
    let (colour, mark) = known.map_or(OTHER, |(_, colour, mark)| (colour, mark));
    Style { colour, mark, strong: engine == "deltafifo" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EngineName;

    /// Returns the relative luminance as defined in the accessibility guidelines (WCAG).
    fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_contrasts_with_white_and_black() {
        for colour in STYLES.map(|(_, colour, _)| colour).into_iter().chain([OTHER.0, TEXT, GRID]) {
            let least = if colour == TEXT { 4.5 } else { 3.0 };
            for background in [RGBColor(255, 255, 255), RGBColor(0, 0, 0)] {
                assert!(contrast(colour, background) >= least, "{colour:?} on {background:?}");
            }
        }
    }

    #[test]
    fn every_engine_has_a_colour_and_a_mark_of_its_own() {
        let all = EngineName::ALL.iter().filter(|engine| !engine.is_cache_only());
        let all: Vec<_> = all.collect();
        for (at, one) in all.iter().enumerate() {
            let one = style(one.name());
            assert!(one.colour != OTHER.0);
            for other in &all[..at] {
                let other = style(other.name());
                assert!(one.colour != other.colour && one.mark != other.mark);
            }
        }
    }
}
