//! Reads cases from a file. Every error names the path and the line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::Case;

/// The first two bytes of every gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The limit for the length of a line, in bytes. Without it, a small packed file could unpack to
/// more than the memory holds.
const LONGEST_LINE: u64 = if cfg!(any(test, fuzzing)) { 1 << 16 } else { 64 << 20 };

/// The error of a file of vectors that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened: {cause}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// Reading failed, or the packed data is truncated or damaged.
    #[error("{}: line {line}: cannot be read (a truncated or damaged file?): {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The line that was to be read, from 1.
        line: usize,
        /// The error of the reader.
        cause: io::Error,
    },
    /// A line is not a case.
    #[error("{}: line {line}: not a case of the vectors: {cause}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error of the parser.
        cause: serde_json::Error,
    },
    /// The file has no case.
    #[error("{}: holds no case", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Returns the cases of a file, plain or gzip, which are read on demand.
///
/// # Errors
/// If the file cannot be opened. A case that cannot be read is an error of the iterator.
pub fn read(path: &Path) -> Result<Cases<'static>, ReadError> {
    let file =
        File::open(path).map_err(|cause| ReadError::Open { path: path.to_owned(), cause })?;
    cases(path, file)
}

/// Returns the cases in the data of `file`, plain or gzip; `path` is its name in errors.
///
/// # Errors
/// If the beginning of the file cannot be read. A case that cannot be read is an error of the
/// iterator.
pub fn cases<'f>(path: &Path, file: impl Read + 'f) -> Result<Cases<'f>, ReadError> {
    let mut file = BufReader::new(file);
    let packed = file
        .fill_buf()
        .map_err(|cause| ReadError::Open { path: path.to_owned(), cause })?
        .starts_with(GZIP);
    let text: Box<dyn BufRead + 'f> =
        if packed { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    Ok(Cases { path: path.to_owned(), text, line: 0, found_any: false, finished: false })
}

/// An iterator of cases that are read on demand. It ends after an error.
pub struct Cases<'f> {
    path: PathBuf,
    text: Box<dyn BufRead + 'f>,
    /// The number of the line that was read last, from 1.
    line: usize,
    found_any: bool,
    finished: bool,
}

impl Cases<'_> {
    /// Returns the next line that is not blank.
    fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut text = String::new();
        loop {
            self.line += 1;
            let read = (&mut self.text).take(LONGEST_LINE).read_line(&mut text)?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LONGEST_LINE {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("a line has {LONGEST_LINE} bytes or more"),
                ));
            }
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
            text.clear();
        }
    }
}

impl Iterator for Cases<'_> {
    type Item = Result<Case, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let (path, line) = (self.path.clone(), self.next_line());
        let case = match line {
            Ok(Some(text)) => serde_json::from_str(&text).map_err(|cause| ReadError::Parse {
                path,
                line: self.line,
                cause,
            }),
            Ok(None) if self.found_any => return None,
            Ok(None) => Err(ReadError::Empty { path }),
            Err(cause) => Err(ReadError::Read { path, line: self.line, cause }),
        };
        self.found_any = true;
        self.finished = case.is_err();
        Some(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_line_is_rejected() {
        let endless = io::repeat(b'x').take(1 << 40);
        let first = cases(Path::new("endless"), endless).ok().and_then(|mut cases| cases.next());
        assert!(matches!(first, Some(Err(error)) if error.to_string().contains("or more")));
    }
}
