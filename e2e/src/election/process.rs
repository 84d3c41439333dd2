//! The process of a candidate, as the scenario starts, stops and ends it.

use std::env;
use std::fs::OpenOptions;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use deltafifo::BoxError;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::CandidateOptions;
use crate::scenarios::Setting;

/// The process of a candidate. Dropping the value kills the process, also if it is stopped.
pub struct Process {
    name: &'static str,
    child: Child,
    /// The input of the candidate. The candidate ends when the input ends.
    _input: Option<ChildStdin>,
}

impl Process {
    /// Starts a candidate for this lease. Its errors are appended to `LEASE.log` in the directory
    /// of the servers.
    pub fn start(
        setting: &Setting,
        port: u16,
        (lease, name): (&str, &'static str),
        options: CandidateOptions,
    ) -> Result<Self, BoxError> {
        let log = setting.dir.join(format!("{lease}.log"));
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = if let Some(rival) = &setting.candidate {
            Command::new(rival)
        } else {
            let mut command = Command::new(env::current_exe()?);
            command.arg("candidate");
            command
        };
        command.args(options.arguments()).args([
            format!("--port={port}"),
            format!("--lease={lease}"),
            format!("--identity={name}"),
        ]);
        // The candidate ends when this process does, because its input then ends. The input is not
        // left in the child, because `Child::wait` would close it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Self { name, child, _input: input })
    }

    /// Returns the name of the candidate.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), BoxError> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| format!("candidate {} has ended", self.name))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&mut self) -> Result<bool, BoxError> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits until the process has ended.
    pub async fn ended(&mut self, limit: Duration) -> Result<ExitStatus, BoxError> {
        let ended = timeout(limit, self.child.wait()).await;
        Ok(ended.map_err(|_| format!("candidate {} did not end within {limit:?}", self.name))??)
    }
}
