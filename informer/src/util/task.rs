//! Waiting for the end of a task.

use std::future::pending;
use std::panic::resume_unwind;

use tokio::task::JoinError;

/// Waits for a task that nobody aborts, and returns its result. Resumes the panic of the task.
pub(crate) async fn ended<T>(task: impl Future<Output = Result<T, JoinError>>) -> T {
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime is shutting down, which ends the caller's task as well.
        Err(Err(_)) => pending().await,
    }
}
