//! From a file to cases. Whatever is wrong with it is said with its path and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::Case;

/// The first two bytes of every gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A line beyond this is no case: what is packed small may unpack to more than there is memory.
const LONGEST_LINE: u64 = if cfg!(any(test, fuzzing)) { 1 << 16 } else { 64 << 20 };

/// A file of vectors that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Reading stopped, or what is packed is cut short or damaged.
    #[error("{}: line {line}: cannot be read (a truncated or damaged file?): {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The line that was due, from 1.
        line: usize,
        /// What the reader said.
        source: io::Error,
    },
    /// A line is not a case.
    #[error("{}: line {line}: not a case of the vectors: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// There is nothing in it.
    #[error("{}: holds no case at all", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The cases of a file, plain or gzip, read as they are asked for.
///
/// # Errors
/// When it cannot be opened; each case, when it cannot be read.
pub fn read(path: &Path) -> Result<Cases<'static>, ReadError> {
    let file =
        File::open(path).map_err(|source| ReadError::Open { path: path.to_owned(), source })?;
    cases(path, file)
}

/// The cases in what `file` gives, plain or gzip; `path` is what errors call it.
///
/// # Errors
/// When nothing can be read; each case, when it cannot be read.
pub fn cases<'f>(path: &Path, file: impl Read + 'f) -> Result<Cases<'f>, ReadError> {
    let mut file = BufReader::new(file);
    let packed = file
        .fill_buf()
        .map_err(|source| ReadError::Open { path: path.to_owned(), source })?
        .starts_with(GZIP);
    let text: Box<dyn BufRead + 'f> =
        if packed { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    Ok(Cases { path: path.to_owned(), text, line: 0, found_any: false, finished: false })
}

/// Cases as they come; after an error there are no more.
pub struct Cases<'f> {
    path: PathBuf,
    text: Box<dyn BufRead + 'f>,
    /// The line read last, from 1.
    line: usize,
    found_any: bool,
    finished: bool,
}

impl Cases<'_> {
    /// The next line that is not blank.
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
                    format!("a line of {LONGEST_LINE} bytes or more"),
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
            Ok(Some(text)) => serde_json::from_str(&text).map_err(|source| ReadError::Parse {
                path,
                line: self.line,
                source,
            }),
            Ok(None) if self.found_any => return None,
            Ok(None) => Err(ReadError::Empty { path }),
            Err(source) => Err(ReadError::Read { path, line: self.line, source }),
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
