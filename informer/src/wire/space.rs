//! JSON's white space: a space, a tab, a line feed or a carriage return (RFC 8259, section 2).
//!
//! Unlike ASCII white space it has no form feed, which no JSON parser skips.

/// Returns whether `byte` is white space.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns `json` without white space at its start.
pub(crate) fn trim_start(json: &[u8]) -> &[u8] {
    let start = json.iter().position(|byte| !is_space(*byte)).unwrap_or(json.len());
    &json[start..]
}

/// Returns `json` without white space at its end.
pub(crate) fn trim_end(json: &[u8]) -> &[u8] {
    let end = json.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    &json[..end]
}

/// Returns `json` without white space around it.
#[cfg(feature = "compact")]
pub(crate) fn trim(json: &[u8]) -> &[u8] {
    trim_start(trim_end(json))
}

#[cfg(test)]
mod tests {
    use super::{trim_end, trim_start};

    #[test]
    fn only_white_space_of_json_is_trimmed() {
        for (json, start, end) in [
            (" \t\r\n{ } ", "{ } ", " \t\r\n{ }"),
            ("\x0c{}\x0c", "\x0c{}\x0c", "\x0c{}\x0c"),
            (" \n", "", ""),
            ("", "", ""),
        ] {
            assert_eq!(trim_start(json.as_bytes()), start.as_bytes());
            assert_eq!(trim_end(json.as_bytes()), end.as_bytes());
        }
    }
}
