//! The signals that end an example.

use std::io;

/// Waits for Ctrl-C or, on Unix, SIGTERM, with which Kubernetes ends a pod.
#[cfg(unix)]
pub async fn stopped() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => stopped,
        _ = terminate.recv() => Ok(()),
    }
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub async fn stopped() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
