//! A candidate with kube-leader-election 0.44.0, which renews the lease every third of its duration
//! and shares the result with the writers, as the examples of the library do.

#[path = "../../candidate.rs"]
mod candidate;

use std::error::Error;

use kube_leader_election::{LeaseLock, LeaseLockParams, LeaseLockResult};
use tokio::sync::watch;
use tokio::time::sleep;

use candidate::{Arguments, NAMESPACE};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read();
    let params = LeaseLockParams {
        lease_name: arguments.lease.clone(),
        holder_id: arguments.identity(),
        lease_ttl: arguments.lease_duration,
    };
    let lock = LeaseLock::new(arguments.client()?, NAMESPACE, params);
    let period = arguments.lease_duration / 3;
    let (sender, mut acquired) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            match lock.try_acquire_or_renew().await {
                Ok(LeaseLockResult::Acquired(lease)) => drop(sender.send_replace(Some(lease))),
                Ok(LeaseLockResult::NotAcquired(_)) => drop(sender.send_replace(None)),
                Err(error) => eprintln!("{error}"),
            }
            sleep(period).await;
        }
    });
    let lease = acquired.wait_for(Option::is_some).await?.clone();
    arguments.lead(&lease.unwrap_or_default(), || acquired.borrow().is_some()).await?;
    candidate::lost()
}
