//! The style of an engine: a colour for its family, and a mark of its own, so that no two engines
//! are distinguished by colour alone. The colours in the SVG files are readable on white and on
//! black. The page knows its background, and uses stronger ones.

use std::fmt::Write;

use plotters::style::RGBColor;

/// A colour in the files, and its replacements on a light and on a dark page.
#[derive(Clone, Copy)]
pub struct Ink {
    pub file: RGBColor,
    light: &'static str,
    dark: &'static str,
}

const fn ink(file: (u8, u8, u8), light: &'static str, dark: &'static str) -> Ink {
    Ink { file: RGBColor(file.0, file.1, file.2), light, dark }
}

pub const TEXT: Ink = ink((0x76, 0x76, 0x76), "#1f2328", "#e6edf3");
pub const GRID: Ink = ink((0x80, 0x80, 0x80), "#8c959f", "#768390");

/// The mark at a measured point.
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

/// The style of an engine.
#[derive(Clone, Copy)]
pub struct Style {
    pub ink: Ink,
    pub mark: Mark,
    /// Whether the engine is emphasized.
    pub strong: bool,
}

/// The colours and marks of the engines.
const STYLES: [(&str, Ink, Mark); 13] = [
    ("deltafifo", ink((0x1f, 0x78, 0xd1), "#0757ba", "#58a6ff"), Mark::Disc),
    ("deltafifo-skip", ink((0x3d, 0x93, 0xc2), "#2e8bc0", "#8fd0f5"), Mark::Ring),
    ("deltafifo-1-thread", ink((0x2f, 0x8c, 0x96), "#1b7c83", "#76d7de"), Mark::Left),
    ("deltafifo-lane", ink((0x5b, 0x6e, 0xe8), "#4350d6", "#a3b0ff"), Mark::Right),
    ("deltafifo-single", ink((0x6c, 0x7f, 0xa6), "#4f6390", "#a9bbdf"), Mark::Tent),
    ("mutex", ink((0xc7, 0x6b, 0x0a), "#b35900", "#f0a044"), Mark::Square),
    ("dashmap", ink((0x2b, 0x8a, 0x50), "#1a7f37", "#4ac26b"), Mark::Diamond),
    ("floor", ink((0x86, 0x80, 0x78), "#6e6a64", "#b0aaa0"), Mark::Plus),
    ("kube-writer", ink((0x9a, 0x5f, 0xd4), "#7a3fc0", "#c297ff"), Mark::Cross),
    ("kube-writer-arc", ink((0xa8, 0x72, 0xb8), "#9a5cae", "#dcb4ea"), Mark::Lozenge),
    ("client-go-deltafifo", ink((0xd6, 0x40, 0x3a), "#c21f26", "#ff7b72"), Mark::Up),
    ("client-go-realfifo", ink((0xcf, 0x5c, 0x92), "#b8336f", "#ff8fc0"), Mark::Down),
    ("client-go-informer", ink((0xa5, 0x66, 0x4e), "#87452c", "#d9a38c"), Mark::Box),
];

/// The style of clients of a server, and of engines of another version of the tool.
const OTHER: (Ink, Mark) = (ink((0x70, 0x7b, 0x8a), "#57606a", "#9aa5b1"), Mark::Cross);

/// Returns the style of an engine.
pub fn style(engine: &str) -> Style {
    let known = STYLES.into_iter().find(|(name, ..)| *name == engine);
    let (ink, mark) = known.map_or(OTHER, |(_, ink, mark)| (ink, mark));
    Style { ink, mark, strong: engine == "deltafifo" }
}

fn all_inks() -> impl Iterator<Item = Ink> {
    STYLES.into_iter().map(|(_, ink, _)| ink).chain([OTHER.0, TEXT, GRID])
}

/// Returns the CSS rules that replace the colours of the plots on the page.
pub fn style_sheet() -> String {
    let (mut light, mut dark, mut rules) = (String::new(), String::new(), String::new());
    for ink in all_inks() {
        let RGBColor(red, green, blue) = ink.file;
        let hex = format!("{red:02X}{green:02X}{blue:02X}");
        // Writing to a String cannot fail.
        let _ = write!(light, "--i{hex}:{};", ink.light);
        let _ = write!(dark, "--i{hex}:{};", ink.dark);
        for attribute in ["fill", "stroke"] {
            let _ = writeln!(rules, "svg [{attribute}=\"#{hex}\"]{{{attribute}:var(--i{hex})}}");
        }
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{rules}")
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

    fn of_hex(hex: &str) -> RGBColor {
        let part = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        RGBColor(part(1), part(3), part(5))
    }

    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_contrasts_with_its_backgrounds() {
        let (white, black, dark) =
            (RGBColor(255, 255, 255), RGBColor(0, 0, 0), RGBColor(0x0d, 0x11, 0x17));
        for ink in all_inks() {
            let colours = [
                (ink.file, white),
                (ink.file, black),
                (of_hex(ink.light), white),
                (of_hex(ink.dark), dark),
            ];
            for (colour, background) in colours {
                let least = if ink.file == TEXT.file { 4.5 } else { 3.0 };
                assert!(contrast(colour, background) >= least, "{colour:?} on {background:?}");
            }
        }
    }

    #[test]
    fn every_engine_has_a_colour_and_a_mark_of_its_own() {
        for (at, one) in EngineName::ALL.iter().enumerate() {
            let one = style(one.name());
            assert!(one.ink.file != OTHER.0.file);
            for other in &EngineName::ALL[..at] {
                let other = style(other.name());
                assert!(one.ink.file != other.ink.file && one.mark != other.mark);
            }
        }
    }
}
