//! The removal of the measuring machine's paths from texts.

use std::path::Path;

/// Returns a text in which every absolute path is shortened to its last component, because the
/// paths of the measuring machine do not belong in a report. A path begins and ends at a space,
/// quote, bracket, comma, semicolon or equals sign.
pub(super) fn plain(text: &str) -> String {
    let is_edge = |c: char| c.is_whitespace() || "\"'`()[]=,;".contains(c);
    text.split_inclusive(is_edge)
        .map(|piece| {
            let word = piece.trim_end_matches(is_edge);
            let last = Path::new(word).file_name().filter(|_| word.starts_with('/'));
            match last {
                Some(last) => format!("{}{}", last.to_string_lossy(), &piece[word.len()..]),
                None => piece.to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_shortened_to_their_last_component() {
        for (text, shown) in [
            ("--json /a/b/c.json", "--json c.json"),
            ("--json=/a/b/c.json", "--json=c.json"),
            ("--report target/r ../up", "--report target/r ../up"),
            ("\"/a/b\" (/c/d), 1/s", "\"b\" (d), 1/s"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(plain(text), shown);
        }
    }
}
