//! What is to be measured.

use std::path::PathBuf;

use super::chosen::Chosen;

/// What it is called in every table.
pub(super) const WORKLOAD: &str = "server";

/// What is to be measured.
pub struct Plan {
    /// The server of this file,
    pub kubeconfig: PathBuf,
    /// by these,
    pub chosen: Chosen,
    /// with so many objects,
    pub objects: usize,
    /// so many times.
    pub rounds: usize,
}
