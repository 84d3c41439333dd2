//! client-go's shared informer, in a process of its own, whose program is built from `client-go/`.

use std::fs::File;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo::BoxError;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Handlers, PANICS, PLAIN, SLEEPS, handlers};
use crate::oracle::{Change, States};
use crate::scenarios::Setting;
use crate::servers::{CLIENT_GO as NAME, NAMESPACE, TOKEN};

/// The longest time that the process may take to answer or to end. It is long, because a handler
/// may be sleeping.
const ANSWERING: Duration = Duration::from_secs(60);

/// The process of client-go's informer. Dropping the value kills it.
pub struct ClientGo {
    process: Child,
    input: ChildStdin,
    handlers: Handlers,
    full_requests: Arc<AtomicUsize>,
    stored: mpsc::UnboundedReceiver<States>,
    reading: JoinHandle<Result<(), BoxError>>,
}

/// A line of the process's output, as `client-go/output.go` writes it.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Notified { handler: String, key: String, change: Change },
    FullRequest(bool),
    Stored(States),
    Ended {},
}

impl ClientGo {
    pub fn start(setting: &Setting, port: u16) -> Result<Self, BoxError> {
        let program = setting.binaries.join(NAME);
        let log = File::create(setting.dir.join(format!("{NAME}.log")))?;
        let mut command = Command::new(&program);
        command.args([
            format!("-server=https://127.0.0.1:{port}"),
            format!("-token={TOKEN}"),
            format!("-namespace={NAMESPACE}"),
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut process = command.spawn().map_err(|error| {
            format!("{} cannot be started, build it with e2e/build.sh: {error}", program.display())
        })?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("client-go was started without pipes".into());
        };
        let (handlers, full_requests) =
            (handlers(&[PLAIN, SLEEPS, PANICS]), Arc::<AtomicUsize>::default());
        let (has_stored, stored) = mpsc::unbounded_channel();
        let reading =
            tokio::spawn(read(output, handlers.clone(), full_requests.clone(), has_stored));
        Ok(Self { process, input, handlers, full_requests, stored, reading })
    }

    pub fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    pub fn full_requests(&self) -> usize {
        // Relaxed, as at the increment: the number orders no other memory access.
        self.full_requests.load(Ordering::Relaxed)
    }

    /// Returns the contents of client-go's store.
    pub async fn stored(&mut self) -> Result<States, BoxError> {
        self.input.write_all(b"stored\n").await?;
        let stored = timeout(ANSWERING, self.stored.recv()).await;
        let stored = stored.map_err(|_| format!("{NAME} did not answer within {ANSWERING:?}"))?;
        stored.ok_or_else(|| format!("{NAME} has ended").into())
    }

    /// Asks the process to end, and waits until it has ended.
    pub async fn stop(mut self) -> Result<(), BoxError> {
        drop(self.input);
        let ended = timeout(ANSWERING, self.process.wait()).await;
        let status = ended.map_err(|_| format!("{NAME} did not end within {ANSWERING:?}"))??;
        self.reading.await??;
        if status.success() { Ok(()) } else { Err(format!("{NAME} has ended: {status}").into()) }
    }
}

async fn read(
    output: ChildStdout,
    handlers: Handlers,
    full_requests: Arc<AtomicUsize>,
    stored: mpsc::UnboundedSender<States>,
) -> Result<(), BoxError> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Line::Notified { handler, key, change } => {
                let log = handlers
                    .get(handler.as_str())
                    .ok_or_else(|| format!("{NAME} has an unknown handler {handler}"))?;
                log.lock().record(&key, change);
            }
            Line::FullRequest(for_all) => {
                full_requests.fetch_add(usize::from(for_all), Ordering::Relaxed);
            }
            // If the send fails, the scenario has failed and nothing waits for the response.
            Line::Stored(all) => drop(stored.send(all)),
            Line::Ended {} => return Ok(()),
        }
    }
    Err(format!("{NAME} ended unexpectedly").into())
}
