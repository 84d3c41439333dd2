//! The cluster of the examples: a real one, or a simulated one in this process.

use std::error::Error;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use deltafifo_informer::shared_informer::Scope;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::sleep;

/// The arguments of an example: the cluster, the namespace, and the duration.
#[derive(Args)]
pub struct Cluster {
    /// The kubeconfig of the cluster. Default: a simulated cluster in this process.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The only namespace to use. Default: all namespaces.
    #[arg(long)]
    pub namespace: Option<String>,
    /// The number of seconds after which the example stops. Default: it stops at Ctrl-C.
    #[arg(long)]
    seconds: Option<u64>,
}

impl Cluster {
    /// Returns a client of the cluster, or `None` if it must be simulated.
    pub async fn client(&self) -> Result<Option<Client>, Box<dyn Error>> {
        let Some(file) = &self.kubeconfig else { return Ok(None) };
        let config = Config::from_custom_kubeconfig(
            Kubeconfig::read_from(file)?,
            &KubeConfigOptions::default(),
        )
        .await?;
        Ok(Some(Client::try_from(config)?))
    }

    pub fn scope(&self) -> Scope {
        self.namespace.clone().map_or_else(Scope::all, Scope::namespace)
    }

    /// Waits for Ctrl-C, or until the duration has passed.
    pub async fn stopped(&self) -> io::Result<()> {
        let over = async {
            match self.seconds {
                Some(seconds) => sleep(Duration::from_secs(seconds)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => stopped,
            () = over => Ok(()),
        }
    }
}
