//! Atomic writes of files: the text is written to a temporary file in the same directory, which is
//! then renamed.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// The reason why an output of the tool cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritable {
    #[error("cannot write {}", path.display())]
    Path { path: PathBuf, source: io::Error },
    /// Standard output is closed or full. The files are already written.
    #[error("cannot write to standard output")]
    Terminal(#[source] io::Error),
    #[cfg(feature = "peers")]
    #[error("cannot draw a plot of the report: {0}")]
    Draw(String),
}

/// Checks that a file can be written, without changing it.
pub(super) fn check(path: &Path) -> Result<(), Unwritable> {
    let writable = || match replaced(path)? {
        Some(path) => beside(&path).map(drop),
        None if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        None => fs::File::options().write(true).open(path).map(drop),
    };
    writable().map_err(at(path))
}

/// Writes a file, so that a reader sees either the old content or the whole new one.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Unwritable> {
    let written = || match replaced(path)? {
        Some(path) => {
            let mut file = beside(&path)?;
            file.write_all(text.as_bytes())?;
            file.persist(path)?;
            Ok(())
        }
        None => fs::write(path, text),
    };
    written().map_err(at(path))
}

/// Returns the path of the file that a write replaces; for a link, that of its target. Returns
/// `None` for a terminal, pipe, device or directory, which must not be replaced.
fn replaced(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => path.canonicalize().map(Some),
        Ok(_) => Ok(None),
        Err(_) => Ok(Some(path.to_owned())),
    }
}

fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The usual permissions of a new file, less the umask. A temporary file would have fewer.
    Builder::new()
        .prefix(".relist-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Unwritable {
    let path = path.to_owned();
    |source| Unwritable::Path { path, source }
}
