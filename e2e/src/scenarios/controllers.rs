//! The scenario of three controllers, compiled with kube's runtime and with this project's. Each
//! set has a server of its own. Both sets reconcile all objects. Then pods and secrets are deleted
//! while their watches are cut and have expired: this project's controllers reconcile the owners,
//! which are `ConfigMap`s, and kube's do not.

use std::time::Duration;

use deltafifo::BoxError;
use kube::Client;
use tokio::time::{Instant, sleep};

use super::{Ended, Outcome, Setting};
use crate::controllers::{Cluster, Controllers, Watches};
use crate::servers::{Options, Servers};
use crate::wait::POLL;

/// The number of `ConfigMap`s whose pods and secret are deleted while the watches are cut.
const MISSED: usize = 20;
/// The number of watches that are cut: two of pods, one of secrets.
const WATCHES: usize = 3;
/// The longest time that controllers may take to reach the expected state.
const RECONCILING: Duration = Duration::from_secs(60);

pub async fn run(setting: &Setting) -> Ended {
    missed(setting, "ours", Controllers::ours, |wrong| wrong.iter().all(Vec::is_empty)).await?;
    let kubes = missed(setting, "kubes", Controllers::of_kube, |_| true).await?;
    // If kube's controllers reconcile these config maps some day, the guide must no longer claim
    // that they do not.
    if kubes.iter().any(|wrong| wrong.len() != MISSED) {
        return Err(format!("kube's controllers missed {kubes:?} instead of {MISSED} each").into());
    }
    Ok(Outcome::Held(format!(
        "3 controllers reconciled {MISSED} maps after deletions that no watch delivered; kube's reconciled none"
    )))
}

/// The names of the config maps that are not reconciled, by controller.
type Wrong = [Vec<String>; 3];

/// Runs the scenario with one set of controllers. Waits until the controllers have received every
/// notification and `is_right` holds. Returns the config maps that are not reconciled then.
async fn missed(
    setting: &Setting,
    name: &str,
    start: fn(&Client) -> Controllers,
    is_right: fn(&Wrong) -> bool,
) -> Result<Wrong, BoxError> {
    let dir = setting.dir.join(name);
    std::fs::create_dir(&dir)?;
    // Nothing here would create service accounts.
    let options = Options {
        arguments: vec!["--disable-admission-plugins=ServiceAccount"],
        ..Options::default()
    };
    let servers = Servers::start(&Setting { dir, ..setting.clone() }, options).await?;
    let (cluster, watches) = (Cluster::new(&servers.client()), Watches::default());
    let _controllers = start(&watches.client(servers.port())?);
    let names: Vec<_> = (0..MISSED).map(|number| format!("m-{number}")).collect();
    for name in &names {
        cluster.add(name).await?;
    }
    right(&cluster, |wrong| wrong.iter().all(Vec::is_empty)).await?;

    watches.cut(WATCHES).await;
    for name in &names {
        cluster.strip(name).await?;
    }
    watches.expire(WATCHES).await;
    // Everything that those lists showed has been delivered once this config map is reconciled.
    cluster.add("last").await?;
    let is_last_right = |wrong: &Wrong| !wrong.iter().flatten().any(|name| name == "last");
    right(&cluster, is_last_right).await?;
    cluster.strip("last").await?;
    right(&cluster, |wrong| is_last_right(wrong) && is_right(wrong)).await
}

/// Waits until `is_right` holds. Returns the config maps that are not reconciled then.
async fn right(cluster: &Cluster, is_right: impl Fn(&Wrong) -> bool) -> Result<Wrong, BoxError> {
    let deadline = Instant::now() + RECONCILING;
    loop {
        let wrong = cluster.wrong().await?;
        if is_right(&wrong) {
            return Ok(wrong);
        }
        if Instant::now() > deadline {
            return Err(format!("not reconciled within {RECONCILING:?}: {wrong:?}").into());
        }
        sleep(POLL).await;
    }
}
