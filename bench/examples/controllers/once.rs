//! A controller that has nothing to do, and ends when every object was reconciled once. It is
//! compiled twice, with another `runtime` each time.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::runtime::controller::{Action, Config, Controller};
use super::runtime::watcher;

struct Seen {
    /// By name, which is a number.
    maps: Vec<AtomicBool>,
    left: AtomicUsize,
}

pub async fn run(client: Client, objects: usize, workers: u16) {
    let maps = (0..objects).map(|_| AtomicBool::new(false)).collect();
    let seen = Arc::new(Seen { maps, left: AtomicUsize::new(objects) });
    Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default())
        .with_config(Config::default().concurrency(workers))
        .run(reconcile, error_policy, seen.clone())
        // Relaxed: who is told that a reconcile has ended sees what it has counted.
        .take_while(|_| ready(seen.left.load(Ordering::Relaxed) > 0))
        .for_each(|reconciled| {
            if let Err(error) = reconciled {
                eprintln!("{error}");
            }
            ready(())
        })
        .await;
}

async fn reconcile(map: Arc<ConfigMap>, seen: Arc<Seen>) -> Result<Action, Infallible> {
    let number = map.metadata.name.as_ref().and_then(|name| name.parse::<usize>().ok());
    // Relaxed: counts.
    if number
        .and_then(|number| seen.maps.get(number))
        .is_some_and(|is_seen| !is_seen.swap(true, Ordering::Relaxed))
    {
        seen.left.fetch_sub(1, Ordering::Relaxed);
    }
    Ok(Action::await_change())
}

#[allow(clippy::trivially_copy_pass_by_ref)] // kube's.
fn error_policy(_: Arc<ConfigMap>, _: &Infallible, _: Arc<Seen>) -> Action {
    Action::requeue(Duration::from_secs(1))
}
