//! The access of an example to a real cluster.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The arguments that choose a cluster. By default, it is simulated in this process.
#[derive(Args)]
pub struct Access {
    /// The kubeconfig of the cluster. Default: a simulated cluster in this process.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use the cluster in which this program runs, with the account of its pod.
    #[arg(long, conflicts_with = "kubeconfig")]
    in_cluster: bool,
}

impl Access {
    /// Returns a client of the cluster, or `None` if it must be simulated.
    pub async fn client(&self) -> Result<Option<Client>, Box<dyn Error>> {
        let config = match &self.kubeconfig {
            Some(file) => {
                let options = KubeConfigOptions::default();
                Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?
            }
            None if self.in_cluster => Config::incluster()?,
            None => return Ok(None),
        };
        Ok(Some(Client::try_from(config)?))
    }
}
