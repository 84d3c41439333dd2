//! A client in a process of its own, which does what the lines of its standard input say, and
//! answers each:
//!
//! | line | what is done | answer |
//! | --- | --- | --- |
//! | none, the start | everything is listed, and watched from there | `there`, and the counts |
//! | `cut` | the watch tells nothing more | `cut` |
//! | `relist N` | the watch ends, as one does whose version has expired; N objects have changed meanwhile | `there`, and the counts |
//!
//! `there` comes at once after the last call of the handler: then the parent looks at what the
//! process has used. What it is to count takes its time after that. The client in Go,
//! `peers/client-go/server`, does the same.

mod cut;
mod kube_rs;
mod ours;
mod tally;

use std::io::{self, Write};
use std::path::Path;
use std::thread;

use deltafifo::BoxError;
use kube::runtime::watcher;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::client_name::ClientName;
use super::config::config;
use super::objects::namespace;
use crate::versions::locked;
use cut::Cut;
use kube_rs::KubeRs;
use ours::Ours;
use tally::Told;

/// What a client counted in a step, and what it is.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Calls of the handler for an object.
    pub told: usize,
    /// Those of them for an object that changed while it was cut off.
    pub changed: usize,
    /// Objects in the store.
    pub stored: usize,
    /// Parts and versions.
    pub version: String,
}

pub(super) const THERE: &str = "there";
pub(super) const CUT: &str = "cut";
pub(super) const RELIST: &str = "relist";

/// One that runs.
trait Watching {
    /// Waits until its handler was told of everything there was at first.
    async fn first_list(&self) -> Result<(), BoxError>;

    /// Ends the cut, and waits until everything is listed anew, and the handler told of as many
    /// changes.
    async fn relist(&self, cut: &Cut, changed: usize) -> Result<(), BoxError>;

    fn counted(&self) -> Counted;
}

struct Counted {
    told: Told,
    stored: usize,
}

/// Runs a client of this process to the end of its input.
///
/// # Errors
/// Whatever keeps it from that; it is for the parent to show.
pub fn run(name: ClientName, kubeconfig: &Path, objects: usize) -> Result<(), BoxError> {
    Runtime::new()?.block_on(async {
        let (cut, namespace) = (Cut::default(), namespace(objects));
        let client = cut.client(config(kubeconfig).await?)?;
        let kube = |config| KubeRs::start(client.clone(), &namespace, config, name.is_without());
        match name {
            ClientName::DeltaFifo | ClientName::DeltaFifoList | ClientName::DeltaFifoWithout => {
                let version = format!("deltafifo-informer {}", locked("deltafifo-informer"));
                obey(&Ours::start(client, &namespace, name)?, &cut, &version).await
            }
            ClientName::KubeList => obey_kube(&kube(watcher::Config::default()), &cut).await,
            ClientName::KubeListAny => {
                obey_kube(&kube(watcher::Config::default().any_semantic()), &cut).await
            }
            ClientName::KubeStreamed | ClientName::KubeWithout => {
                obey_kube(&kube(watcher::Config::default().streaming_lists()), &cut).await
            }
            _ => Err(format!("{name} is another program's").into()),
        }
    })
}

async fn obey_kube(client: &KubeRs, cut: &Cut) -> Result<(), BoxError> {
    obey(client, cut, &format!("kube-runtime {}", locked("kube-runtime"))).await
}

async fn obey(client: &impl Watching, cut: &Cut, version: &str) -> Result<(), BoxError> {
    let mut input = lines();
    step(&mut input, client.first_list()).await?;
    there(client, version)?;
    while let Some(line) = input.recv().await {
        match line.split_once(' ') {
            Some((RELIST, changed)) => {
                step(&mut input, client.relist(cut, changed.parse()?)).await?;
                there(client, version)?;
            }
            None if line == CUT => {
                let hold = async {
                    cut.hold().await;
                    Ok(())
                };
                step(&mut input, hold).await?;
                say(CUT)?;
            }
            _ => return Err(format!("{line:?} is not a line of the benchmark").into()),
        }
    }
    Ok(())
}

/// Lines of the standard input, until it ends.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (tell, lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    lines
}

/// Does something that the parent waits for. Should that go away, nobody does.
async fn step(
    input: &mut mpsc::UnboundedReceiver<String>,
    work: impl Future<Output = Result<(), BoxError>>,
) -> Result<(), BoxError> {
    tokio::select! {
        _ = input.recv() => Err("nobody waits for this client any more".into()),
        done = work => done,
    }
}

fn there(client: &impl Watching, version: &str) -> Result<(), BoxError> {
    say(THERE)?;
    let Counted { told, stored } = client.counted();
    let counts =
        Counts { told: told.calls, changed: told.changed, stored, version: version.to_owned() };
    Ok(say(&serde_json::to_string(&counts)?)?)
}

/// A line; who reads it has it at once.
fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
