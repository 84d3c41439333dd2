//! Builds and runs the peer in Go: the program `peers/client-go`, which measures the queues and the
//! informer of client-go. It is built from source, because it is not published as a package.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine::Machine;

const SOURCE: &str = "peers/client-go";

/// The program of the peer in Go, after its build.
#[derive(Debug)]
pub struct GoPeer {
    program: PathBuf,
    /// The value of `GOMEMLIMIT`, in bytes. When the memory of the peer comes near it, Go collects
    /// garbage more often. It is determined once for a run, so that every turn has the setting that
    /// the report names.
    memory_limit: u64,
}

/// The reason why the peer in Go cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GoUnusable {
    #[error("`go` is not installed")]
    NoGo,
    #[error("bench/{SOURCE} no longer exists in the directory where this tool was built")]
    NoSource,
    /// Go did not start, or the path of this program is not known.
    #[error("cannot start go build")]
    Start(#[from] io::Error),
    #[error("go build of bench/{SOURCE} failed: {0}")]
    Build(String),
}

impl GoPeer {
    /// Builds the Go engines into the directory of this binary. Go compiles only what has changed,
    /// so a second build is fast.
    pub fn build() -> Result<Self, GoUnusable> {
        Self::build_package(".", "client-go-peer")
    }

    /// Builds the program with client-go's clients of an API server into the directory of this
    /// binary.
    #[cfg(feature = "peers")]
    pub fn build_client() -> Result<Self, GoUnusable> {
        Self::build_package("./server", "client-go-client")
    }

    /// Returns the directory of the peers' source, if Go can build it here.
    pub fn find() -> Result<PathBuf, GoUnusable> {
        let found =
            Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Err(GoUnusable::NoGo);
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
        if source.join("go.mod").is_file() { Ok(source) } else { Err(GoUnusable::NoSource) }
    }

    fn build_package(package: &str, name: &str) -> Result<Self, GoUnusable> {
        let source = Self::find()?;
        let program = env::current_exe()?.with_file_name(name);
        let mut go = Command::new("go");
        go.args(["build", "-o"]).arg(&program).arg(package).current_dir(source);
        let built = go.output()?;
        if !built.status.success() {
            let message = String::from_utf8_lossy(&built.stderr).trim().to_owned();
            return Err(GoUnusable::Build(message));
        }
        Ok(Self { program, memory_limit: Machine::available_bytes() / 4 * 3 })
    }

    /// Returns a command that starts the peer with Go's default settings for memory.
    pub fn with_defaults(&self) -> Command {
        Command::new(&self.program)
    }

    /// Returns a command that starts the peer with settings that make Go faster, and with a limit
    /// that keeps the peer within the memory of the machine. Environment variables that are
    /// already set take precedence.
    pub fn with_tuning(&self) -> Command {
        /// The heap grows to five times the live data before Go collects. With Go's default, 100,
        /// lists took a third longer (BENCHMARKS.md).
        const GOGC: &str = "400";
        let mut command = self.with_defaults();
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
