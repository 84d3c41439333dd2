//! Where the examples' deployments are: in a cluster, or in one made up in this process.

use std::error::Error;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use deltafifo_informer::shared_informer::Scope;
use deltafifo_testkit::{ApiServer, Resource, status};
use k8s_openapi::api::apps::v1::Deployment;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::core::discovery;
use kube::{Client, Config};
use serde_json::json;
use tokio::time::{interval, sleep};

/// Which deployments, and for how long.
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
    pub async fn client(&self) -> Result<Client, Box<dyn Error>> {
        let Some(file) = &self.kubeconfig else { return Ok(made_up()) };
        let config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
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

/// A cluster whose deployments come, become available, are scaled and go; now and then a watch breaks, or is too old.
fn made_up() -> Client {
    let deployments = Resource::built_in(ApiResource::erase::<Deployment>(&()), discovery::Scope::Namespaced);
    let server = ApiServer::builder().resource(deployments.clone()).build();
    let client = server.client();
    tokio::spawn(async move {
        let deployment = |number: u32, replicas: u32, available: u32| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "namespace": "shop", "name": format!("web-{number}") },
                "spec": { "replicas": replicas, "selector": {}, "template": {} },
                "status": { "replicas": replicas, "availableReplicas": available },
            })
        };
        let mut beat = interval(Duration::from_millis(500));
        for number in 0_u32.. {
            beat.tick().await;
            let mut written = vec![server.apply(deployment(number, 1, 0))];
            written.extend(number.checked_sub(1).map(|one| server.apply(deployment(one, 1, 1))));
            written.extend(number.checked_sub(3).map(|one| server.apply(deployment(one, 3, 1))));
            written.extend(number.checked_sub(6).map(|one| server.delete(&deployments, "shop", &format!("web-{one}"))));
            if let Some(error) = written.into_iter().find_map(Result::err) {
                eprintln!("the made-up cluster: {error}");
            }
            if number % 10 == 9 {
                server.break_watches();
            }
            if number % 30 == 24 {
                server.error_watches(status::expired("too old a version"));
            }
        }
    });
    client
}
