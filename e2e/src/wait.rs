//! Waits for conditions that can only be polled.

use std::time::Duration;

use deltafifo::BoxError;
use tokio::time::{Instant, sleep};

use crate::oracle::States;
use crate::writer::Writer;

/// The time between two polls.
pub const POLL: Duration = Duration::from_millis(50);
/// The age at which a list is requested again, because a write whose response was lost may have
/// taken effect after that list.
const FRESH: Duration = Duration::from_secs(5);

/// Waits until `holds` is true. If that takes longer than `limit`, returns an error that contains
/// `condition`.
pub async fn until(
    condition: &str,
    limit: Duration,
    holds: impl Fn() -> bool,
) -> Result<(), BoxError> {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("timed out after {limit:?} waiting for {condition}").into());
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Waits until `differs` finds no difference from a fresh list of the objects, and returns that
/// list. Returns an error if there is still a difference after `limit`.
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
                    return Err(format!("handlers did not catch up: {difference}").into());
                }
                Some(_) if Instant::now() > stale => break,
                Some(_) => sleep(POLL).await,
            }
        }
    }
}
