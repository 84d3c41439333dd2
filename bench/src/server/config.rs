//! How the server of a kubeconfig is reached, by all clients in Rust alike.

use std::path::Path;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// What a kubeconfig says of its current context.
pub(super) async fn config(path: &Path) -> Result<Config, KubeconfigError> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default())
            .await?;
    if config.accept_invalid_certs || config.cluster_url.scheme_str() == Some("http") {
        // So that the machine's own are not looked for: there may be none.
        config.root_cert.get_or_insert_default();
    }
    Ok(config)
}
