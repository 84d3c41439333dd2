//! From a file to cases. Whatever is wrong with it is said with its path and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::Case;

/// The first two bytes of every gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

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
pub fn read(path: &Path) -> Result<impl Iterator<Item = Result<Case, ReadError>>, ReadError> {
    let open = |source| ReadError::Open { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(open)?);
    let packed = file.fill_buf().map_err(open)?.starts_with(GZIP);
    let text: Box<dyn BufRead> =
        if packed { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    Ok(Cases { path: path.to_owned(), text, line: 0, found: false, over: false })
}

struct Cases {
    path: PathBuf,
    text: Box<dyn BufRead>,
    /// The line read last, from 1.
    line: usize,
    found: bool,
    over: bool,
}

impl Cases {
    /// The next line that is not blank.
    fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut text = String::new();
        loop {
            self.line += 1;
            if self.text.read_line(&mut text)? == 0 {
                return Ok(None);
            }
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
            text.clear();
        }
    }
}

impl Iterator for Cases {
    type Item = Result<Case, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let (path, line) = (self.path.clone(), self.next_line());
        let case = match line {
            Ok(Some(text)) => {
                serde_json::from_str(&text).map_err(|source| ReadError::Parse { path, line: self.line, source })
            }
            Ok(None) if self.found => return None,
            Ok(None) => Err(ReadError::Empty { path }),
            Err(source) => Err(ReadError::Read { path, line: self.line, source }),
        };
        self.found = true;
        self.over = case.is_err();
        Some(case)
    }
}
