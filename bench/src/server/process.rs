//! A client's process: lines to it, lines from it, and what it has used, as the system says it,
//! whatever it is written in.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::TurnFailed;
use crate::workloads::peak_of;

/// How long a step may take: several times what any client needs for a million objects.
const LIMIT: Duration = Duration::from_secs(600);

/// Killed when it is dropped.
pub(super) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    said: JoinHandle<String>,
    began: Instant,
    id: u32,
    clock: ClockId,
}

/// What a process has used since its start.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub wall: Duration,
    /// On all cores, in the kernel too.
    pub cpu: Duration,
    /// The most that was resident, in bytes; 0 when it has ended.
    pub peak: u64,
}

impl Process {
    /// Starts it; a Ctrl-C of the terminal does not reach it.
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
        // Read all the time: one that says much would wait for ever.
        let said = tokio::spawn(async move {
            let mut said = Vec::new();
            // What came before an error is still what it said.
            let _ = errors.read_to_end(&mut said).await;
            let said = String::from_utf8_lossy(&said);
            said.trim().lines().next_back().unwrap_or("it did not say why").to_owned()
        });
        Ok(Self {
            input: child.stdin.take(),
            child,
            output: BufReader::new(output),
            said,
            began,
            id,
            clock,
        })
    }

    /// What it has used up to now; also when it has ended, but was not waited for.
    pub fn used(&self) -> Result<Used, TurnFailed> {
        let wall = self.began.elapsed();
        Ok(Used { wall, cpu: clock_gettime(self.clock)?.into(), peak: peak_of(self.id) })
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// Tells it a line.
    pub async fn tell(&mut self, line: &str) -> Result<(), TurnFailed> {
        let input = self.input.as_mut().ok_or(TurnFailed::Pipes)?;
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Tells it that there is nothing more.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// The next line that it says; then it is `until`.
    pub async fn line(&mut self, until: &'static str) -> Result<String, TurnFailed> {
        let mut line = String::new();
        match timeout(LIMIT, self.output.read_line(&mut line)).await {
            Ok(Ok(0)) => Err(self.ended(until).await),
            Ok(read) => {
                read?;
                Ok(line.trim_end().to_owned())
            }
            Err(_) => Err(self.late(until).await),
        }
    }

    /// Some of its output; nothing at its end.
    pub async fn read(
        &mut self,
        into: &mut [u8],
        until: &'static str,
    ) -> Result<usize, TurnFailed> {
        match timeout(LIMIT, self.output.read(into)).await {
            Ok(read) => Ok(read?),
            Err(_) => Err(self.late(until).await),
        }
    }

    /// How it ended.
    pub async fn status(&mut self) -> Result<ExitStatus, TurnFailed> {
        Ok(self.child.wait().await?)
    }

    /// It has ended before its time.
    pub async fn ended(&mut self, until: &'static str) -> TurnFailed {
        TurnFailed::Ended { until, said: self.said().await }
    }

    async fn late(&mut self, until: &'static str) -> TurnFailed {
        // It may have ended by itself just now.
        let _ = self.child.start_kill();
        TurnFailed::Late { until, limit: LIMIT, said: self.said().await }
    }

    /// The last line that it printed to standard error.
    async fn said(&mut self) -> String {
        (&mut self.said).await.unwrap_or_default()
    }
}
