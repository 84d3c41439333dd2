//! Splits the body of a watch into lines, one event each. Only the part of the current line that
//! has arrived is kept in memory, up to a limit.

use bytes::BytesMut;

use super::budget::Share;
use super::large::{CompleteText, Large};
use super::outline::Outline;
use super::space::trim_end;
use super::{LARGE, WireError};

/// The number of bytes that a line may have in addition to its object. It is enough for every line
/// that an API server writes with an object of the largest size. The exact size of the object is
/// checked when the line is parsed.
const AROUND: usize = 64 << 10;

/// A splitter of one watch's body.
pub(crate) struct Lines {
    /// The bytes of the current line.
    bytes: BytesMut,
    /// The current line once it is large. Then `bytes` is empty.
    large: Option<Large>,
    /// The maximum length of a line, in bytes.
    limit: usize,
}

impl Lines {
    /// Creates a splitter for objects of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), large: None, limit: limit.saturating_add(AROUND) }
    }

    /// Appends bytes of the body, and pushes the lines that are complete now to `lines`, without
    /// their line ends. Empty lines are ignored.
    pub(crate) fn push(
        &mut self,
        mut chunk: &[u8],
        lines: &mut Vec<CompleteText>,
    ) -> Result<(), WireError> {
        if let Some(mut large) = self.large.take() {
            let end = memchr::memchr(b'\n', chunk);
            large.push(chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default())?;
            let Some(end) = end else {
                self.large = Some(large);
                return Ok(());
            };
            lines.push(large.finish());
            chunk = chunk.get(end + 1..).unwrap_or_default();
        }
        // The bytes before `seen` contain no line end.
        let mut seen = self.bytes.len();
        self.bytes.extend_from_slice(chunk);
        while let Some(end) = memchr::memchr(b'\n', self.bytes.get(seen..).unwrap_or_default()) {
            let line = self.bytes.split_to(seen + end + 1).freeze();
            seen = 0;
            let line = line.slice(..trim_end(&line).len());
            if !line.is_empty() {
                lines.push(CompleteText::Read(line, None));
            }
        }
        if self.bytes.len() > LARGE.min(self.limit) {
            self.large = Some(Large::new(&self.bytes, self.limit, Outline::of_line)?);
            self.bytes = BytesMut::new();
        }
        Ok(())
    }

    /// Returns the largest size that the current line may have, if it is large and has no share of
    /// the budget.
    pub(crate) fn wants_share(&self) -> Option<usize> {
        self.large.as_ref().and_then(Large::wants_share)
    }

    /// Sets the share of the current line.
    pub(crate) fn give(&mut self, share: Share) {
        if let Some(large) = &mut self.large {
            large.give(share);
        }
    }

    /// Returns whether the body so far ends within a line.
    pub(crate) fn is_within_line(&self) -> bool {
        self.large.is_some() || !self.bytes.is_empty()
    }

    /// Ends the body.
    ///
    /// # Errors
    /// [`WireError::CutShort`]: it ended within a line.
    pub(crate) fn finish(self) -> Result<(), WireError> {
        if self.large.is_none() && trim_end(&self.bytes).is_empty() {
            Ok(())
        } else {
            Err(WireError::CutShort { of: "a watch event" })
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{AROUND, Lines};
    use crate::wire::large::ENDLESS;
    use crate::wire::{CompleteText, LARGE, WireError};

    fn read(wholes: Vec<CompleteText>) -> Vec<Bytes> {
        let read = |whole| match whole {
            CompleteText::Read(line, _) => line,
            CompleteText::Skipped(_) => panic!("it is not too large"),
        };
        wholes.into_iter().map(read).collect()
    }

    #[test]
    fn lines_are_complete_however_the_body_is_split() {
        let body = "one\ntwo and more\r\n\n{\"three\":\"\\n\"}\n";
        for size in 1..=body.len() {
            let (mut lines, mut found) = (Lines::new(usize::MAX), Vec::new());
            for chunk in body.as_bytes().chunks(size) {
                lines.push(chunk, &mut found).unwrap();
            }
            assert_eq!(
                read(found),
                ["one", "two and more", r#"{"three":"\n"}"#],
                "pieces of {size}"
            );
            lines.finish().unwrap();
        }
    }

    #[test]
    fn incomplete_last_line_is_reported_as_incomplete() {
        for last in [&b"{\"typ"[..], b"\x0c"] {
            let (mut lines, mut found) = (Lines::new(usize::MAX), Vec::new());
            lines.push(b"one\n", &mut found).unwrap();
            lines.push(last, &mut found).unwrap();
            assert_eq!(lines.finish(), Err(WireError::CutShort { of: "a watch event" }));
            assert_eq!(found.len(), 1);
        }
    }

    #[test]
    fn form_feed_is_not_blank_space() {
        let (mut lines, mut found) = (Lines::new(usize::MAX), Vec::new());
        lines.push(b"one\x0c\n\x0c\n", &mut found).unwrap();
        assert_eq!(read(found), ["one\x0c", "\x0c"]);
    }

    #[test]
    fn line_whose_object_is_beyond_the_limit_is_skipped_and_the_next_is_read() {
        for limit in [1000, LARGE, 2 * LARGE] {
            let object = format!(
                r#"{{"metadata":{{"name":"a"}},"data":"{}"}}"#,
                "x".repeat(limit + 2 * AROUND)
            );
            let body = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\nnext\n");
            for size in [512, 4096] {
                let (mut lines, mut found) = (Lines::new(limit), Vec::new());
                for chunk in body.as_bytes().chunks(size) {
                    lines.push(chunk, &mut found).unwrap();
                }
                lines.finish().unwrap();
                let [CompleteText::Skipped(outline), CompleteText::Read(next, _)] = &found[..]
                else {
                    panic!("by {size}")
                };
                assert_eq!(
                    (outline.name.as_deref(), outline.size),
                    (Some("a"), object.len()),
                    "by {size}"
                );
                assert_eq!((outline.kind.as_deref(), next.as_ref()), (Some("ADDED"), &b"next"[..]));
            }
        }
    }

    #[test]
    fn large_line_is_read_whole_and_an_incomplete_one_is_an_error() {
        let line = "x".repeat(3 * LARGE);
        let (mut lines, mut found) = (Lines::new(3 * LARGE), Vec::new());
        for chunk in format!("{line}\nsmall\n{line}").as_bytes().chunks(5000) {
            lines.push(chunk, &mut found).unwrap();
        }
        assert_eq!(read(found), [line.as_str(), "small"]);
        assert_eq!(lines.finish(), Err(WireError::CutShort { of: "a watch event" }));
    }

    #[test]
    fn endless_line_is_an_error() {
        let mut lines = Lines::new(LARGE);
        lines.push(b"\"", &mut Vec::new()).unwrap();
        let chunk = vec![b'x'; ENDLESS / 16];
        let fails = (0..100).position(|_| lines.push(&chunk, &mut Vec::new()).is_err()).unwrap();
        assert_eq!(fails, 15, "fails at the sixteenth");
    }
}
