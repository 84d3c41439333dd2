//! The plan of a run with a server.

use std::path::PathBuf;

use super::chosen::Chosen;

/// The name of the workload in every table.
pub(super) const WORKLOAD: &str = "server";

/// The plan of a run with a server.
pub struct Plan {
    /// The kubeconfig of the server.
    pub kubeconfig: PathBuf,
    /// The clients.
    pub chosen: Chosen,
    /// The number of objects.
    pub objects: usize,
    /// The number of rounds.
    pub rounds: usize,
}
