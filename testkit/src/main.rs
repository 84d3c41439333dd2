//! Serves the API server of the test kit on a TCP address, for `kubectl` and clients in any
//! language that send JSON. It serves every client without authentication, so it refuses an
//! address that is not loopback unless a flag allows it.

use std::error::Error;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use deltafifo_testkit::{ApiServer, Resource};
use serde_json::json;

/// A Kubernetes API server for tests, without TLS, authentication and admission, and with little
/// validation. It serves the common built-in kinds and the custom resources whose definitions
/// clients create. Objects are lost when it ends, at Ctrl-C or SIGTERM.
#[derive(Parser)]
#[command(name = "deltafifo-testkit", version)]
struct Cli {
    /// The address to serve; port 0 lets the system choose a port, and the program prints the URL
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
    /// Serve an address that is not loopback: clients are not authenticated, so everyone who
    /// reaches the address can read and write all objects
    #[arg(long)]
    allow_remote_clients: bool,
    /// Write a kubeconfig for clients to this file
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Delete no dependents of deleted objects and no contents of deleted namespaces, as an API
    /// server without controllers
    #[arg(long)]
    no_controllers: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    if !cli.listen.ip().to_canonical().is_loopback() && !cli.allow_remote_clients {
        let why = format!(
            "{} is not a loopback address, and clients are not authenticated; listen on \
             127.0.0.1 or add --allow-remote-clients",
            cli.listen
        );
        Cli::command().error(ErrorKind::ValueValidation, why).exit();
    }
    match serve(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("deltafifo-testkit: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves the address until a signal arrives.
async fn serve(cli: Cli) -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder()
        .resources(Resource::known())
        .controllers(!cli.no_controllers)
        .managed_fields(true)
        // Nothing reads them here.
        .recorded_requests(0)
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
    let serving = server
        .serve(cli.listen)
        .await
        .map_err(|error| format!("cannot serve {}: {error}", cli.listen))?;
    if let Some(file) = &cli.kubeconfig {
        fs::write(file, serving.kubeconfig().to_string())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    let stopped = signals()?;
    println!("{}", serving.url());
    stopped.await;
    Ok(())
}

/// Installs the handlers of Ctrl-C and SIGTERM. Returns a future that waits for one of them.
#[cfg(unix)]
fn signals() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Installs the handler of Ctrl-C. Returns a future that waits for it.
#[cfg(windows)]
fn signals() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move { drop(interrupt.recv().await) })
}
