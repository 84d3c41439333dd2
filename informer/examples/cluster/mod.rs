//! Where the examples' objects are: in a cluster, or in one made up in this process.

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

/// Which objects, and for how long.
#[derive(Args)]
pub struct Cluster {
    /// The cluster; without it, a made-up one in this process.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only this namespace.
    #[arg(long)]
    pub namespace: Option<String>,
    /// Stops after so long; without it, at Ctrl-C.
    #[arg(long)]
    seconds: Option<u64>,
}

impl Cluster {
    /// None: it is to be made up.
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

    /// Waits for Ctrl-C, or for as long as was said.
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
