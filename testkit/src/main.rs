//! Serves the API server of the test kit on a TCP address, for `kubectl` and clients in any
//! language that send JSON.
//!
//! Use it on a loopback address. It serves every client without authentication, records every
//! request until it ends, and has no limit of the size of a body.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use deltafifo_testkit::{ApiServer, Resource};
use serde_json::json;

/// A Kubernetes API server for tests, without TLS, authentication, admission and validation. It
/// serves the common built-in kinds and the custom resources whose definitions clients create.
/// Objects are lost when it ends.
#[derive(Parser)]
#[command(name = "deltafifo-testkit", version)]
struct Cli {
    /// The address to serve; port 0 lets the system choose a port. Use it on loopback: clients are
    /// not authenticated, the size of a body has no limit, and all requests are recorded in memory
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
    /// Write a kubeconfig for clients to this file
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Delete no dependents of deleted objects and no contents of deleted namespaces, as an API
    /// server without controllers
    #[arg(long)]
    no_controllers: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let server = ApiServer::builder()
        .resources(Resource::known())
        .controllers(!cli.no_controllers)
        .managed_fields(true)
        .build();
    for name in ["default", "kube-system"] {
        server.apply(json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        }))?;
    }
    let serving = server.serve(cli.listen).await?;
    if let Some(file) = &cli.kubeconfig {
        fs::write(file, serving.kubeconfig().to_string())?;
    }
    println!("{}", serving.url());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
