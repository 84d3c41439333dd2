//! Waiting for what can be looked at, but tells nobody.

use std::time::Duration;

use deltafifo::BoxError;
use tokio::time::{Instant, sleep};

use crate::oracle::States;
use crate::writer::Writer;

/// Between two looks.
pub const POLL: Duration = Duration::from_millis(50);
/// After how long a fresh list is no longer fresh: a write that was cut off may have come since.
const FRESH: Duration = Duration::from_secs(5);

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

/// Waits until nothing differs from a fresh list any more. That list; an error when it does after `limit`.
pub async fn agreed(
    writer: &Writer,
    limit: Duration,
    differs: impl Fn(&States) -> Option<String>,
) -> Result<States, BoxError> {
    let deadline = Instant::now() + limit;
    loop {
        let (fresh, stale) = (writer.listed().await?, Instant::now() + FRESH);
        loop {
            match differs(&fresh) {
                None => return Ok(fresh),
                Some(difference) if Instant::now() > deadline => {
                    return Err(format!("handlers were not told of everything: {difference}").into());
                }
                Some(_) if Instant::now() > stale => break,
                Some(_) => sleep(POLL).await,
            }
        }
    }
}
