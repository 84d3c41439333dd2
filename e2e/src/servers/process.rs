//! A server as a child process. It writes a log, ends on request, and never outlives its owner.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use deltafifo::BoxError;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The longest time that a server may take to end. An API server waits some seconds for its open
/// watches and requests.
const ENDING: Duration = Duration::from_secs(60);

/// A child process. Dropping the value kills the process, also during a panic.
pub struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    /// Starts `command`, whose output is appended to `NAME.log` in `dir`.
    pub fn start(name: &'static str, mut command: Command, dir: &Path) -> Result<Self, BoxError> {
        let log =
            OpenOptions::new().create(true).append(true).open(dir.join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let child = command.spawn().map_err(|error| {
            let program = Path::new(command.as_std().get_program()).display();
            format!("{program} cannot be started, build it with e2e/build.sh: {error}")
        })?;
        Ok(Self { name, child })
    }

    /// Returns an error if the process has ended.
    pub fn check(&mut self) -> Result<(), BoxError> {
        match self.child.try_wait()? {
            Some(status) => Err(format!("{} has ended: {status}", self.name).into()),
            None => Ok(()),
        }
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub async fn stop(mut self) -> Result<(), BoxError> {
        // A process that was waited for has no id.
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            kill_process(pid, Signal::TERM)?;
        }
        let ended = timeout(ENDING, self.child.wait()).await;
        ended
            .map_err(|_| format!("{} did not end within {ENDING:?} after SIGTERM", self.name))??;
        Ok(())
    }

    /// Sends SIGKILL, which ends the process at once.
    pub async fn kill(mut self) -> Result<(), BoxError> {
        Ok(self.child.kill().await?)
    }
}
