//! Clients of a real API server: `relist --server KUBECONFIG`. Each client is measured from the
//! start of its process to the last notification of its handler, and then in a relist: its watch is
//! held back while 1 % of the objects are changed, and then expires. The objects are config maps.
//! The server runs on the same machine and slows the client down, so the CPU figures count only the
//! client's process.
//!
//! * `objects.rs`: the objects on the server.
//! * `turn.rs`: the measurement of one client, in its process (`process.rs`) or by curl
//!   (`curl.rs`).
//! * `client/`: the clients in Rust. The one in Go is `peers/client-go/server`.
//!
//! | figure | meaning |
//! | --- | --- |
//! | `list` | seconds from the start of the process until its handler was notified of every object |
//! | `list-cpu` | CPU seconds of the process up to then |
//! | `list-peak` | peak of the resident memory up to then, in bytes an object |
//! | `relist-cpu` | CPU seconds from the expiry of the watch until the list was complete and the handler was notified of every change |
//! | `relist-peak` | peak of the resident memory up to then, in bytes an object |

mod client;
mod client_name;
mod curl;
mod error;
mod objects;
mod plan;
mod process;
mod turn;

use std::path::Path;
use std::pin::pin;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tokio::runtime::Runtime;
use tokio::signal;

pub use client::run as run_client;
pub use client_name::ClientName;
pub use error::ServerError;
use objects::Objects;
use plan::WORKLOAD;
pub use plan::{ChosenClients, ServerPlan};
use turn::ClientTurn;

use crate::causes::with_causes;
use crate::protocol::{Measured, Row};
use crate::report::Missed;
use crate::rounds::{Interrupted, Outcome};

/// Creates the missing objects, and runs all clients. If a client fails, its turn has no result,
/// and the others still run. Ctrl-C ends the run; its measurements so far are returned.
pub fn run(plan: &ServerPlan) -> Result<Outcome, ServerError> {
    Runtime::new()?.block_on(measure(plan))
}

async fn measure(plan: &ServerPlan) -> Result<Outcome, ServerError> {
    let client = connect(&plan.kubeconfig).await?;
    let objects = Objects::fill(client, plan.objects).await?;
    let all = ClientTurn::all(&plan.chosen.clients, plan.rounds);
    let mut outcome = Outcome::default();
    let mut interrupt = pin!(signal::ctrl_c());
    for (done, turn) in all.iter().enumerate() {
        eprintln!("{turn}");
        tokio::select! {
            biased;
            signal = &mut interrupt => {
                signal?;
                outcome.interrupted = Some(Interrupted { done, of: all.len() });
                let missed = |turn: &ClientTurn| missed(turn, plan, &turn.to_string());
                outcome.unfinished = all[done..].iter().map(missed).collect();
                break;
            }
            result = turn.run(plan, &objects) => match result {
                Ok(result) => record(&mut outcome, turn, plan, result),
                Err(why) => {
                    let failed = format!("{turn}: {}", with_causes(&why));
                    eprintln!("FAILED: {failed}; continuing with the other turns");
                    outcome.failed.push(missed(turn, plan, &failed));
                }
            }
        }
    }
    Ok(outcome)
}

fn record(
    outcome: &mut Outcome,
    turn: &ClientTurn,
    plan: &ServerPlan,
    (rows, version): (Vec<Row>, String),
) {
    let (engine, objects) = (turn.client.to_string(), plan.objects);
    let measured = rows.into_iter().map(|row| Measured { engine: engine.clone(), objects, row });
    outcome.measured.extend(measured);
    outcome.describe(engine, &format!("{}: {version}", turn.client.description()));
}

fn missed(turn: &ClientTurn, plan: &ServerPlan, message: &str) -> Missed {
    Missed::new(turn.client.to_string(), plan.objects, vec![WORKLOAD.to_owned()], message)
}

/// Creates a client of the server that the current context of a kubeconfig names.
///
/// # Errors
/// If the file is not a kubeconfig, or names certificates or programs that do not exist.
pub async fn connect(kubeconfig: &Path) -> Result<Client, ServerError> {
    let config = config(kubeconfig).await.map_err(ServerError::kubeconfig(kubeconfig))?;
    Client::try_from(config).map_err(|source| {
        let path = kubeconfig.to_owned();
        ServerError::Client { path, source: source.into() }
    })
}

/// Reads the current context of a kubeconfig. All clients in Rust connect to the server with it.
async fn config(path: &Path) -> Result<Config, KubeconfigError> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default())
            .await?;
    if config.accept_invalid_certs || config.cluster_url.scheme_str() == Some("http") {
        // With an empty list the certificates of the machine are not read: there may be none.
        config.root_cert.get_or_insert_default();
    }
    Ok(config)
}
