//! Processes of scenarios: candidates of elections, and replicas that share objects. They are
//! started, stopped and ended by signals, and each can be cut off from the API server.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, io, process, thread};

use deltafifo::BoxError;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::proxy::Proxy;

/// A process that reaches the API server through its own proxy.
pub struct Proxied {
    pub process: Process,
    pub proxy: Proxy,
}

/// A process of a scenario. Dropping the value kills the process, also if it is stopped.
pub struct Process {
    name: String,
    child: Child,
    /// The input of the process. The process ends when the input ends.
    _input: Option<ChildStdin>,
}

impl Proxied {
    /// Starts the process of this name. `port` is the port of the API server; `command` is called
    /// with that of the proxy. The errors of the process are appended to the file `log`.
    pub fn start(
        name: impl Into<String>,
        port: u16,
        command: impl FnOnce(u16) -> Command,
        log: &Path,
    ) -> Result<Self, BoxError> {
        let proxy = Proxy::to(port)?;
        let process = Process::start(name.into(), command(proxy.port()), log)?;
        Ok(Self { process, proxy })
    }

    /// Returns the name of the process.
    pub fn name(&self) -> String {
        self.process.name.clone()
    }
}

impl Process {
    fn start(name: String, mut command: Command, log: &Path) -> Result<Self, BoxError> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        // The process ends when this one does, because its input then ends. The input is not left
        // in the child, because `Child::wait` would close it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Self { name, child, _input: input })
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), BoxError> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| format!("the process {} has ended", self.name))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&mut self) -> Result<bool, BoxError> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits until the process has ended.
    pub async fn ended(&mut self, limit: Duration) -> Result<ExitStatus, BoxError> {
        let ended = timeout(limit, self.child.wait()).await;
        Ok(ended
            .map_err(|_| format!("the process {} did not end within {limit:?}", self.name))??)
    }
}

/// Returns the command that runs a subcommand of this program.
pub fn this_program(subcommand: &str) -> Result<Command, BoxError> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(subcommand);
    Ok(command)
}

/// Ends this process when its standard input ends, which means that the scenario has ended.
pub fn end_with_input() {
    thread::spawn(|| {
        // An error of the standard input ends the process, too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(1);
    });
}
