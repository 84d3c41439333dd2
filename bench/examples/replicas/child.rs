//! A replica in a process of its own: the process itself, and its handle in the process that
//! measures.
//!
//! The process prints a line of JSON ten times a second, a [`Progress`]. When its input is closed,
//! it prints the set of the objects that it has reconciled, and ends.

use std::env;
use std::io::{self, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use deltafifo_bench::process::{cpu, peak};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{interval, timeout};

use crate::cluster::{Failure, Timing};
use crate::replica::{Mode, Plan, Replica};

/// The time in which a process ends after its input was closed.
const END: Duration = Duration::from_secs(60);

/// The replica that a process runs.
#[derive(Args)]
pub(crate) struct ChildArgs {
    /// The address of the API server
    #[arg(long)]
    server: String,
    #[arg(long)]
    pod: String,
    #[arg(long)]
    mode: Mode,
    #[arg(long)]
    objects: usize,
    /// Use the short durations
    #[arg(long)]
    quick: bool,
}

/// The state of a replica.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) calls: usize,
    /// The number of objects that were reconciled.
    pub(crate) distinct: usize,
    /// The reconciles but the first of each object whose shard was not lost in between.
    pub(crate) repeated_in_term: usize,
    /// The number of objects in the store.
    pub(crate) stored: usize,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_bytes: u64,
}

/// A line of the output.
#[derive(Serialize, Deserialize)]
enum Line {
    Progress(Progress),
    /// The objects that were reconciled, a bit for each.
    Reconciled(Vec<u64>),
}

/// Runs a replica until the input is closed.
pub(crate) async fn run(args: ChildArgs) -> Result<(), Failure> {
    let client = Client::try_from(Config::new(args.server.parse()?))?;
    let timing = if args.quick { Timing::SHORT } else { Timing::DEFAULT };
    let ChildArgs { mode, objects, pod, .. } = args;
    let plan = Plan { mode, objects, timing, began: Instant::now() };
    let replica = Replica::start(plan, &client, &pod).await?;
    let mut ticks = interval(Duration::from_millis(100));
    let mut closed = spawn_blocking(|| io::stdin().read(&mut [0]));
    loop {
        tokio::select! {
            _ = &mut closed => break,
            _ = ticks.tick() => {}
        }
        let progress = Progress {
            calls: replica.record.calls(),
            distinct: replica.record.distinct(),
            repeated_in_term: replica.record.repeated_in_term(),
            stored: replica.informer.store().len(),
            cpu_seconds: cpu()?.as_secs_f64(),
            peak_bytes: peak(),
        };
        println!("{}", serde_json::to_string(&Line::Progress(progress))?);
    }
    let mut words = vec![0_u64; objects.div_ceil(64)];
    for (number, ..) in replica.record.reconciled() {
        words[number / 64] |= 1 << (number % 64);
    }
    println!("{}", serde_json::to_string(&Line::Reconciled(words))?);
    replica.stop().await
}

/// The handle of a replica in another process, which is killed if this is dropped.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    progress: watch::Receiver<Progress>,
    /// Reads the output. Returns the last line.
    reading: JoinHandle<io::Result<String>>,
}

impl Process {
    pub(crate) fn start(
        server: &str,
        pod: &str,
        mode: Mode,
        objects: usize,
        is_quick: bool,
    ) -> Result<Self, Failure> {
        let mode = mode.to_possible_value().ok_or("each mode has a name")?;
        let mut command = Command::new(env::current_exe()?);
        command.arg("replica").args(["--server", server, "--pod", pod, "--mode", mode.get_name()]);
        command.args(["--objects", &*objects.to_string()]).args(is_quick.then_some("--quick"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or("the input is a pipe")?;
        let output = child.stdout.take().ok_or("the output is a pipe")?;
        let (sender, progress) = watch::channel(Progress::default());
        let reading = tokio::spawn(async move {
            let (mut lines, mut last) = (BufReader::new(output).lines(), String::new());
            while let Some(line) = lines.next_line().await? {
                if let Ok(Line::Progress(progress)) = serde_json::from_str(&line) {
                    sender.send_replace(progress);
                }
                last = line;
            }
            Ok(last)
        });
        Ok(Self { child, input, progress, reading })
    }

    pub(crate) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Kills the process.
    pub(crate) async fn kill(mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Ends the process. Returns the objects that it has reconciled, a bit for each.
    pub(crate) async fn end(mut self) -> Result<Vec<u64>, Failure> {
        drop(self.input);
        let status = timeout(END, self.child.wait()).await??;
        let last = self.reading.await??;
        match serde_json::from_str(&last) {
            Ok(Line::Reconciled(words)) => Ok(words),
            _ => Err(format!("a replica ended ({status}) without a result").into()),
        }
    }
}
