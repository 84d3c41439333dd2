//! A client in a process of its own. Each line of its standard input is a command, which the client
//! carries out and answers:
//!
//! | line | action | answer |
//! | --- | --- | --- |
//! | none, at the start | lists all objects, and watches | `there`, and the counts |
//! | `cut` | holds back the events of its watch | `cut` |
//! | `relist N` | ends its watch as if the version had expired, and relists; N objects have changed since the cut | `there`, and the counts |
//!
//! `there` is printed immediately after the last call of the handler. The parent then reads the
//! CPU time and the memory of the process. The counts take time to collect, and are printed
//! afterwards. The client in Go, `peers/client-go/server`, has the same protocol.

mod cut;
mod kube_rs;
mod ours;
mod tally;

use std::io::{self, Write};
use std::path::Path;
use std::thread;

use deltafifo::BoxError;
use deltafifo_informer::compact::Compact;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::client_name::ClientName;
use super::config;
use super::objects::namespace;
use crate::versions::locked;
use cut::Cut;
use kube_rs::KubeRs;
use ours::Ours;
use tally::HandlerCounts;

/// A running client, as the steps of the protocol use it.
trait Watching {
    /// Waits until the handler was notified of all initial objects.
    async fn initial_list(&self) -> Result<(), BoxError>;

    /// Ends the cut, and waits until the relist is complete and the handler was notified of this
    /// many changes.
    async fn relist(&self, cut: &Cut, changed: usize) -> Result<(), BoxError>;

    /// Returns the counts of the handler, and the number of objects in the store.
    fn counts(&self) -> (HandlerCounts, usize);
}

/// The counts of a step, and the description of the client.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientCounts {
    /// Number of calls of the handler for objects that were added or updated.
    #[serde(rename = "notified")]
    pub calls: usize,
    /// Number of these calls for an object that changed during the cut.
    pub changed: usize,
    /// Number of objects in the store.
    pub stored: usize,
    /// The name and version of the client's library. A client in Go adds its settings.
    pub version: String,
}

pub(super) const THERE: &str = "there";
pub(super) const CUT: &str = "cut";
pub(super) const RELIST: &str = "relist";

/// Runs a client until its standard input ends.
pub fn run(name: ClientName, kubeconfig: &Path, objects: usize) -> Result<(), BoxError> {
    Runtime::new()?.block_on(async {
        let (cut, namespace) = (Cut::default(), namespace(objects));
        let client = cut.client(config(kubeconfig).await?)?;
        let config = match name {
            ClientName::DeltaFifo | ClientName::DeltaFifoList | ClientName::DeltaFifoWithout => {
                let client = Ours::<ConfigMap>::start(client, &namespace, name)?;
                return follow(&client, &cut, &ours()).await;
            }
            ClientName::DeltaFifoCompact => {
                let client = Ours::<Compact<ConfigMap>>::start(client, &namespace, name)?;
                return follow(&client, &cut, &ours()).await;
            }
            ClientName::KubeList => watcher::Config::default(),
            ClientName::KubeListAny => watcher::Config::default().any_semantic(),
            ClientName::KubeStreamed | ClientName::KubeWithout => {
                watcher::Config::default().streaming_lists()
            }
            _ => return Err(format!("{name} is a client of another program").into()),
        };
        let client = KubeRs::start(client, &namespace, config, name.is_without());
        follow(&client, &cut, &format!("kube-runtime {}", locked("kube-runtime"))).await
    })
}

/// Returns the name and version of this project's library.
fn ours() -> String {
    format!("deltafifo-informer {}", locked("deltafifo-informer"))
}

/// Reads the commands of the standard input, and carries them out.
async fn follow(client: &impl Watching, cut: &Cut, version: &str) -> Result<(), BoxError> {
    let mut input = lines();
    step(&mut input, client.initial_list()).await?;
    report(client, version)?;
    while let Some(line) = input.recv().await {
        match line.split_once(' ') {
            Some((RELIST, changed)) => {
                step(&mut input, client.relist(cut, changed.parse()?)).await?;
                report(client, version)?;
            }
            None if line == CUT => {
                let hold = async {
                    cut.hold().await;
                    Ok(())
                };
                step(&mut input, hold).await?;
                print_line(CUT)?;
            }
            _ => return Err(format!("unknown line of the protocol: {line:?}").into()),
        }
    }
    Ok(())
}

/// Starts a thread that reads the standard input. Returns the receiver of the lines.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

/// Runs a step that the parent waits for. If the parent ends first, the step is cancelled.
async fn step(
    input: &mut mpsc::UnboundedReceiver<String>,
    work: impl Future<Output = Result<(), BoxError>>,
) -> Result<(), BoxError> {
    tokio::select! {
        _ = input.recv() => Err("the parent closed the standard input during a step".into()),
        done = work => done,
    }
}

/// Prints that a step is complete, and then its counts.
fn report(client: &impl Watching, version: &str) -> Result<(), BoxError> {
    print_line(THERE)?;
    let (HandlerCounts { calls, changed, .. }, stored) = client.counts();
    let counts = ClientCounts { calls, changed, stored, version: version.to_owned() };
    Ok(print_line(&serde_json::to_string(&counts)?)?)
}

/// Prints a line and flushes the output.
fn print_line(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
