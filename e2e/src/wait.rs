//! Waiting for what can be looked at, but tells nobody.

use std::time::Duration;

use deltafifo::BoxError;
use tokio::time::{Instant, sleep};

/// Between two looks.
pub const POLL: Duration = Duration::from_millis(50);

/// Waits until `holds`. An error that names `what`, when it does not within `limit`.
pub async fn until(what: &str, limit: Duration, holds: impl Fn() -> bool) -> Result<(), BoxError> {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("{what}: not within {limit:?}").into());
        }
        sleep(POLL).await;
    }
    Ok(())
}
