//! The configuration with which all clients in Rust connect to the server.

use std::path::Path;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Reads the current context of a kubeconfig.
pub(super) async fn config(path: &Path) -> Result<Config, KubeconfigError> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default())
            .await?;
    if config.accept_invalid_certs || config.cluster_url.scheme_str() == Some("http") {
        // With an empty list the certificates of the machine are not read: there may be none.
        config.root_cert.get_or_insert_default();
    }
    Ok(config)
}
