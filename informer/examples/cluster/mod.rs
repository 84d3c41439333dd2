//! The cluster of the examples: a real one, or a simulated one in this process.

mod access;
mod signal;

use std::error::Error;
use std::future::pending;
use std::io;
use std::time::Duration;

use access::Access;
use clap::Args;
use deltafifo_informer::shared_informer::Scope;
use kube::Client;
use tokio::time::sleep;

/// The arguments of an example: the cluster, the namespace, and the duration.
#[derive(Args)]
pub struct Cluster {
    #[command(flatten)]
    access: Access,
    /// The only namespace to use. Default: all namespaces.
    #[arg(long)]
    pub namespace: Option<String>,
    /// The number of seconds after which the example stops. Default: it stops at Ctrl-C or SIGTERM.
    #[arg(long)]
    seconds: Option<u64>,
}

impl Cluster {
    /// Returns a client of the cluster, or `None` if it must be simulated.
    pub async fn client(&self) -> Result<Option<Client>, Box<dyn Error>> {
        self.access.client().await
    }

    pub fn scope(&self) -> Scope {
        self.namespace.clone().map_or_else(Scope::all, Scope::namespace)
    }

    /// Waits for Ctrl-C or SIGTERM, or until the duration has passed.
    pub async fn stopped(&self) -> io::Result<()> {
        let over = async {
            match self.seconds {
                Some(seconds) => sleep(Duration::from_secs(seconds)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            stopped = signal::stopped() => stopped,
            () = over => Ok(()),
        }
    }
}
