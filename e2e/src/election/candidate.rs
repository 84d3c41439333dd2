//! A candidate: a process that campaigns for a lease. While it leads, it writes its fencing token
//! into two objects, each as fast as the server answers or once.

use std::process::ExitCode;

use deltafifo::BoxError;
use deltafifo_informer::leader_election::{ElectionError, LeaderElector, LeaseLock, Term};
use deltafifo_informer::{error_chain, leader_election};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::CandidateOptions;
use super::history::token_of;
use super::reconciler::Reconciler;
use crate::history::Object;
use crate::process::end_with_input;
use crate::servers::{NAMESPACE, client_at};
use crate::wait::POLL;

/// The exit code of a candidate that has lost its lease.
pub const LOST: u8 = 3;

/// The arguments of a candidate.
#[derive(clap::Args)]
pub struct Candidate {
    /// The port of the API server, or of a proxy to it
    #[arg(long)]
    port: u16,
    /// The name of the lease
    #[arg(long)]
    lease: String,
    /// The name of the candidate
    #[arg(long)]
    identity: String,
    #[command(flatten)]
    options: CandidateOptions,
}

impl Candidate {
    /// Campaigns until SIGTERM arrives, a term is lost, or the standard input ends, which means
    /// that the scenario has ended.
    pub async fn run(&self) -> ExitCode {
        end_with_input();
        match self.campaign().await {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(lost)) => {
                eprintln!("{}: {lost}", self.identity);
                ExitCode::from(LOST)
            }
            Err(error) => {
                eprintln!("{}: {}", self.identity, error_chain(&*error));
                ExitCode::FAILURE
            }
        }
    }

    async fn campaign(&self) -> Result<Result<(), ElectionError>, BoxError> {
        let mut terminated = signal(SignalKind::terminate())?;
        let lock = LeaseLock::new(NAMESPACE, &self.lease).identity(&self.identity);
        let identity = self.identity.clone();
        let CandidateOptions { timing, once, release_on_cancel } = self.options;
        let elector = LeaderElector::builder(client_at(self.port)?, lock)
            .lease_duration(timing.lease_duration)
            .renew_deadline(timing.renew_deadline)
            .retry_period(timing.retry_period)
            .release_on_cancel(release_on_cancel)
            .on_error(move |error| eprintln!("{identity}: {}", error_chain(error)))
            .cancel_on(async move {
                terminated.recv().await;
            })
            .build()?;
        if once {
            let reconciler = Reconciler::start(client_at(self.port)?, &self.lease)?;
            return Ok(elector.run(|term| reconciler.lead(term)).await);
        }
        let lead = async |term: Term| {
            let data = token_of(&term).data(term.identity());
            let written = Object::ALL.map(|object| {
                let metadata =
                    ObjectMeta { name: Some(object.name(&self.lease)), ..Default::default() };
                let map = ConfigMap { metadata, data: Some(data.clone()), ..ConfigMap::default() };
                write(term.client(), map, object)
            });
            futures_util::future::join_all(written).await;
        };
        Ok(elector.run(lead).await)
    }
}

/// Writes `map` again and again, until the client refuses it because the term has ended.
async fn write(client: Client, mut map: ConfigMap, object: Object) {
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let name = map.metadata.name.clone().unwrap_or_default();
    for number in 0_u64.. {
        // Each write has another number, because the server does not store an unchanged object.
        map.data.get_or_insert_default().insert("number".to_owned(), number.to_string());
        if object == Object::Versioned && map.metadata.resource_version.is_none() {
            let Ok(read) = maps.get_metadata(&name).await else {
                sleep(POLL).await;
                continue;
            };
            map.metadata.resource_version = read.metadata.resource_version;
        }
        let written = maps.replace(&name, &PostParams::default(), &map).await;
        // After an error the version is read again.
        map.metadata.resource_version = None;
        match written {
            Ok(written) if object == Object::Versioned => {
                map.metadata.resource_version = written.metadata.resource_version;
            }
            Ok(_) => {}
            Err(error) if leader_election::is_lost(&error) => return,
            Err(_) => sleep(POLL).await,
        }
    }
}
