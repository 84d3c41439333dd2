//! A watch's body, cut into lines: one event each. Memory: what has arrived of the line in hand.

use bytes::{Bytes, BytesMut};

use super::{MOST, WireError};

#[derive(Default)]
pub(crate) struct Lines {
    /// What has arrived of the line in hand.
    bytes: BytesMut,
}

impl Lines {
    /// Takes the next bytes, and appends the lines that are complete now, without their ends. Empty ones are none.
    pub(crate) fn push(&mut self, chunk: &[u8], lines: &mut Vec<Bytes>) -> Result<(), WireError> {
        // What came before has no end of a line in it.
        let mut seen = self.bytes.len();
        self.bytes.extend_from_slice(chunk);
        while let Some(end) = memchr::memchr(b'\n', self.bytes.get(seen..).unwrap_or_default()) {
            let line = self.bytes.split_to(seen + end + 1).freeze();
            seen = 0;
            let line = line.slice(..line.trim_ascii_end().len());
            if !line.is_empty() {
                lines.push(line);
            }
        }
        if self.bytes.len() > MOST { Err(WireError::TooLong) } else { Ok(()) }
    }

    /// The body has ended: between two lines, or in the middle of one.
    pub(crate) fn finish(self) -> Result<(), WireError> {
        if self.bytes.trim_ascii().is_empty() { Ok(()) } else { Err(WireError::CutShort { of: "a watch event" }) }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Lines;
    use crate::wire::WireError;

    #[test]
    fn lines_come_whole_wherever_the_body_is_cut() {
        let body = "one\ntwo and more\r\n\n{\"three\":\"\\n\"}\n";
        for size in 1..=body.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::<Bytes>::new());
            for chunk in body.as_bytes().chunks(size) {
                lines.push(chunk, &mut found).unwrap();
            }
            assert_eq!(found, ["one", "two and more", r#"{"three":"\n"}"#], "pieces of {size}");
            lines.finish().unwrap();
        }
    }

    #[test]
    fn half_a_line_at_the_end_is_said_to_be_one() {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        lines.push(b"one\n{\"typ", &mut found).unwrap();
        assert_eq!(lines.finish(), Err(WireError::CutShort { of: "a watch event" }));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_line_without_end_is_not_read_for_ever() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 1 << 20];
        let fails = (0..100).position(|_| lines.push(&chunk, &mut Vec::new()).is_err()).unwrap();
        assert_eq!(fails, super::MOST >> 20);
    }
}
