//! Signals that ask the process to end.

use std::future::pending;
use std::io;

/// Waits for Ctrl-C or, on Unix, SIGTERM.
pub(super) async fn shutdown_signal() {
    tokio::select! {
        () = or_never(tokio::signal::ctrl_c()) => {}
        () = or_never(terminated()) => {}
    }
}

/// Waits for a signal. If the signal handler cannot be installed, logs a warning and never
/// resolves.
async fn or_never(signal: impl Future<Output = io::Result<()>>) {
    if let Err(error) = signal.await {
        tracing::warn!(%error, "cannot install a signal handler; this signal does not shut the controller down");
        pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminated() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

#[cfg(not(unix))]
async fn terminated() -> io::Result<()> {
    pending().await
}
