//! The process of a client, in any language: its input and output, and the CPU time and memory that
//! the system has measured for it.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::TurnFailed;
use crate::process::peak_of;

/// The time limit of a step: several times the time that the slowest client needs for a million
/// objects.
const LIMIT: Duration = Duration::from_secs(600);

/// The process of a client. Dropping the value kills the process.
pub(super) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_error: JoinHandle<String>,
    began: Instant,
    pub id: u32,
    clock: ClockId,
}

/// The resources that a process has used since its start.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    pub wall: Duration,
    /// CPU time on all cores, including the kernel's.
    pub cpu: Duration,
    /// Peak of the resident memory, in bytes; 0 if the process has ended.
    pub peak: u64,
}

impl Process {
    /// Starts the process in a process group of its own, so that Ctrl-C in a terminal does not end
    /// it.
    pub fn start(mut command: Command) -> Result<Self, TurnFailed> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let began = Instant::now();
        let mut child = command.spawn().map_err(|source| TurnFailed::Start { program, source })?;
        let pipes = (child.stdout.take(), child.stderr.take(), child.id());
        let (Some(output), Some(mut errors), Some(id)) = pipes else {
            return Err(TurnFailed::Pipes);
        };
        let clock = clock_getcpuclockid(Pid::from_raw(id.cast_signed()))?;
        // Read concurrently: a process that fills the pipe of its standard error would block for
        // ever.
        let last_error = tokio::spawn(async move {
            let mut text = Vec::new();
            // The text before an error is still useful.
            let _ = errors.read_to_end(&mut text).await;
            let text = String::from_utf8_lossy(&text);
            text.trim().lines().next_back().unwrap_or("without a message").to_owned()
        });
        let (input, output) = (child.stdin.take(), BufReader::new(output));
        Ok(Self { child, input, output, last_error, began, id, clock })
    }

    /// Returns the elapsed time, the CPU time and the peak of the memory so far. The CPU time is
    /// valid also after the end of the process, until its status is read.
    pub fn usage(&self) -> Result<Usage, TurnFailed> {
        let wall = self.began.elapsed();
        Ok(Usage { wall, cpu: clock_gettime(self.clock)?.into(), peak: peak_of(self.id) })
    }

    /// Writes a line to the process.
    pub async fn write_line(&mut self, line: &str) -> Result<(), TurnFailed> {
        let input = self.input.as_mut().ok_or(TurnFailed::Pipes)?;
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Closes the input of the process.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// Reads the next line of the process, which ends a step. `step` names the step in errors.
    pub async fn line(&mut self, step: &'static str) -> Result<String, TurnFailed> {
        let mut line = String::new();
        match timeout(LIMIT, self.output.read_line(&mut line)).await {
            Ok(Ok(0)) => Err(self.ended(step).await),
            Ok(read) => {
                read?;
                Ok(line.trim_end().to_owned())
            }
            Err(_) => Err(self.late(step).await),
        }
    }

    /// Reads some output of the process. Returns 0 at the end of the output.
    pub async fn read(&mut self, to: &mut [u8], step: &'static str) -> Result<usize, TurnFailed> {
        match timeout(LIMIT, self.output.read(to)).await {
            Ok(read) => Ok(read?),
            Err(_) => Err(self.late(step).await),
        }
    }

    /// Waits for the end of the process, and returns its status.
    pub async fn status(&mut self) -> Result<ExitStatus, TurnFailed> {
        Ok(self.child.wait().await?)
    }

    /// Returns the error for a process that ended during `step`.
    pub async fn ended(&mut self, step: &'static str) -> TurnFailed {
        TurnFailed::Ended { step, message: self.last_error().await }
    }

    async fn late(&mut self, step: &'static str) -> TurnFailed {
        // The process may have ended already.
        let _ = self.child.start_kill();
        TurnFailed::Late { step, limit: LIMIT, message: self.last_error().await }
    }

    /// Returns the last line of the standard error.
    async fn last_error(&mut self) -> String {
        (&mut self.last_error).await.unwrap_or_default()
    }
}
