//! Three controllers, compiled with kube's runtime and with ours, each over a server of its own. All objects are reconciled by
//! both. Then pods and secrets are deleted while their watches are cut off and have expired: ours reconciles their owners, and
//! kube's does not hear of them.

use std::time::Duration;

use deltafifo::BoxError;
use kube::Client;
use tokio::time::{Instant, sleep};

use super::{Ended, Outcome, Setting};
use crate::controllers::{Cluster, Controllers, Watches};
use crate::servers::{Options, Servers};
use crate::wait::POLL;

/// Maps whose belongings are deleted unseen.
const MISSED: usize = 20;
/// Of pods two, of secrets one.
const WATCHES: usize = 3;
/// How long controllers may take.
const RECONCILING: Duration = Duration::from_secs(60);

pub async fn run(setting: &Setting) -> Ended {
    missed(setting, "ours", Controllers::ours, |wrong| wrong.iter().all(Vec::is_empty)).await?;
    let kubes = missed(setting, "kubes", Controllers::of_kube, |_| true).await?;
    // Should kube's tell it some day, its documents and ours have to say so.
    if kubes.iter().any(|wrong| wrong.len() != MISSED) {
        return Err(format!("kube's controllers missed {kubes:?}, and not {MISSED} each").into());
    }
    Ok(Outcome::Held(format!(
        "3 controllers reconciled {MISSED} maps after deletions that no watch told, kube's none of them"
    )))
}

/// Which maps are wrong, by controller.
type Wrong = [Vec<String>; 3];

/// What is wrong when the controllers have been told everything that they will be, and that `is_right`.
async fn missed(
    setting: &Setting,
    name: &str,
    start: fn(&Client) -> Controllers,
    is_right: fn(&Wrong) -> bool,
) -> Result<Wrong, BoxError> {
    let dir = setting.dir.join(name);
    std::fs::create_dir(&dir)?;
    // There is nobody who would make service accounts.
    let options = Options { arguments: vec!["--disable-admission-plugins=ServiceAccount"], ..Options::default() };
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
    // What those lists have shown has been told when this has.
    cluster.add("last").await?;
    let is_last_right = |wrong: &Wrong| !wrong.iter().flatten().any(|name| name == "last");
    right(&cluster, is_last_right).await?;
    cluster.strip("last").await?;
    right(&cluster, |wrong| is_last_right(wrong) && is_right(wrong)).await
}

/// Waits until it `is_right`. What is wrong then.
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
