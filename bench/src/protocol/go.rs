//! The peer in Go: built here, since nobody ships it.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine::Machine;

const SOURCE: &str = "peers/client-go";

/// The built peer.
#[derive(Debug)]
pub struct GoPeer {
    program: PathBuf,
    /// The most that an engine may hold before it collects more often. One for the whole run, so
    /// that every turn has the setting that the report names.
    memory_limit: u64,
}

/// Why there is no peer.
#[derive(Debug, thiserror::Error)]
pub enum GoUnusable {
    /// There is no Go.
    #[error("`go` is not installed")]
    NoGo,
    /// There is no source.
    #[error(
        "the peer's source, bench/{SOURCE}, is not where this was built nor below the working directory"
    )]
    NoSource,
    /// It cannot be run or put anywhere.
    #[error("go build does not start: {0}")]
    Start(#[from] io::Error),
    /// It does not build.
    #[error("go build of bench/{SOURCE} failed: {0}")]
    Build(String),
}

impl GoPeer {
    /// Builds the engines beside this binary. Go builds what has changed, so that a second time
    /// takes a moment.
    ///
    /// # Errors
    /// [`GoUnusable`].
    pub fn build() -> Result<Self, GoUnusable> {
        Self::of(".", "client-go-peer")
    }

    /// The same of the client of an API server.
    ///
    /// # Errors
    /// [`GoUnusable`].
    pub fn build_client() -> Result<Self, GoUnusable> {
        Self::of("./server", "client-go-client")
    }

    /// Returns the directory of the peers' source, which can be built here.
    ///
    /// # Errors
    /// [`GoUnusable::NoGo`], [`GoUnusable::NoSource`].
    pub fn find() -> Result<PathBuf, GoUnusable> {
        let found =
            Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Err(GoUnusable::NoGo);
        }
        source().ok_or(GoUnusable::NoSource)
    }

    fn of(package: &str, name: &str) -> Result<Self, GoUnusable> {
        let source = Self::find()?;
        let program = env::current_exe()?.with_file_name(name);
        let built = Command::new("go")
            .arg("build")
            .arg("-o")
            .arg(&program)
            .arg(package)
            .current_dir(source)
            .output()?;
        if !built.status.success() {
            return Err(GoUnusable::Build(
                String::from_utf8_lossy(&built.stderr).trim().to_owned(),
            ));
        }
        Ok(Self { program, memory_limit: Machine::available_bytes() / 4 * 3 })
    }

    /// What starts the peer, with Go's own settings.
    pub(crate) fn as_it_is(&self) -> Command {
        Command::new(&self.program)
    }

    /// What starts the peer with the faster of two settings, and a limit so that it cannot take
    /// more memory than there is. What the caller's environment says comes first.
    pub(crate) fn at_its_best(&self) -> Command {
        /// Collects when the heap is five times what was alive. With Go's default, 100, lists took
        /// a third longer (BENCHMARKS.md).
        const GOGC: &str = "400";
        let mut command = self.as_it_is();
        for (name, value) in
            [("GOGC", GOGC.to_owned()), ("GOMEMLIMIT", self.memory_limit.to_string())]
        {
            if env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        command
    }
}

/// Where this was built, or, if that has moved, the workspace one stands in.
fn source() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
    let here = ["bench", "."].map(|package| Path::new(package).join(SOURCE));
    std::iter::once(built).chain(here).find(|source| source.join("go.mod").is_file())
}
