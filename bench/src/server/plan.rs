//! The plan of a run with a server: its clients, and the programs that run them.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kube::config::Kubeconfig;
use tokio::process::Command;

use super::client_name::{ClientName, Program};
use super::curl::Curl;
use super::error::ServerError;
use super::objects::namespace;
use crate::causes::with_causes;
use crate::protocol::GoPeer;

/// The name of the workload in every table.
pub(super) const WORKLOAD: &str = "server";

/// The plan of a run with a server.
pub struct ServerPlan {
    pub kubeconfig: PathBuf,
    pub chosen: ChosenClients,
    pub objects: usize,
    pub rounds: usize,
}

/// The clients of a run.
pub struct ChosenClients {
    /// The clients, in the order of their turns.
    pub clients: Vec<ClientName>,
    /// Clients that cannot be run here, with the reason.
    pub skipped: Vec<String>,
    go: Option<GoPeer>,
    pub(super) curl: Option<Curl>,
}

impl ChosenClients {
    /// Returns the named clients, or all that can be run here.
    pub fn of(named: Vec<ClientName>, kubeconfig: &Path) -> Result<Self, ServerError> {
        let is_named = !named.is_empty();
        let clients = if is_named { named } else { ClientName::value_variants().to_vec() };
        let read =
            Kubeconfig::read_from(kubeconfig).map_err(ServerError::kubeconfig(kubeconfig))?;
        let mut chosen = Self { clients, skipped: Vec::new(), go: None, curl: None };
        if chosen.has(Program::Curl) {
            chosen.curl = chosen.found(Program::Curl, "curl", Curl::of(&read), is_named)?;
        }
        if chosen.has(Program::Go) {
            eprintln!("building the client in Go");
            chosen.go = chosen.found(Program::Go, "client-go", GoPeer::build_client(), is_named)?;
        }
        if chosen.clients.is_empty() { Err(ServerError::NoClients) } else { Ok(chosen) }
    }

    fn has(&self, program: Program) -> bool {
        self.clients.iter().any(|client| client.program() == program)
    }

    /// Returns the program that the parameter `found` contains. If `found` is an error and the
    /// user has named clients, returns an error. If the user has named none, returns `None`, and
    /// removes the clients that need the program.
    fn found<T>(
        &mut self,
        program: Program,
        name: &'static str,
        found: Result<T, impl Error>,
        is_named: bool,
    ) -> Result<Option<T>, ServerError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(why) if is_named => {
                Err(ServerError::Program { program: name, why: with_causes(&why) })
            }
            Err(why) => {
                let why = with_causes(&why);
                eprintln!("skipping {name}: {why}");
                self.skipped.push(format!("The clients of {name} were left out: {why}."));
                self.clients.retain(|client| client.program() != program);
                Ok(None)
            }
        }
    }

    /// Returns a command that starts a client other than curl. A client in Go is started either
    /// with Go's default settings or with the faster ones.
    pub(super) fn command(
        &self,
        client: ClientName,
        kubeconfig: &Path,
        objects: usize,
        has_defaults: bool,
    ) -> std::io::Result<Command> {
        let mut command = match &self.go {
            Some(go) if client.program() == Program::Go => {
                let mut command = if has_defaults { go.with_defaults() } else { go.with_tuning() };
                command.env("KUBE_FEATURE_WatchListClient", client.is_streamed().to_string());
                command.arg(format!("--protobuf={}", client.is_protobuf()));
                command.arg(format!("--without={}", client.is_without()));
                command.args(["--namespace", &namespace(objects)]);
                command
            }
            _ => {
                let mut command = std::process::Command::new(std::env::current_exe()?);
                command.args(["--child", "--client", &client.to_string()]);
                command.args(["--objects", &objects.to_string()]);
                command
            }
        };
        command.arg("--server").arg(kubeconfig);
        Ok(command.into())
    }
}
