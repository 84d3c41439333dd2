//! The scenario in which the API server compacts etcd before the second page of a list is
//! requested. The page token has then expired (410, as a status), so the reflector requests all
//! objects in one list that is at least as new as the first page. An object of the first page that
//! was deleted before that list is delivered as a tombstone.
//!
//! The API server pages an initial list only if it has no cache for the resource, so its cache is
//! off in this scenario.

use std::time::Duration;

use deltafifo::ResourceVersion;
use deltafifo_informer::lister_watcher::{ListRequest, Request};

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::gate::Gate;
use crate::informers::Informers;
use crate::oracle::Counts;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::wait::until;
use crate::writer::Write;

/// The longest time until the consumer knows the first object.
const FIRST: Duration = Duration::from_secs(30);
/// The silence after which a list of the reflector fails. It is longer than the default, because
/// the [`Gate`] holds the second page of the list until the scenario opens it.
const HELD: Duration = Duration::from_secs(200);

pub async fn run(setting: &Setting) -> Ended {
    let arguments = vec!["--watch-cache-sizes=configmaps#0", "--etcd-compaction-interval=10s"];
    let servers = Servers::start(setting, Options { arguments, ..Options::default() }).await?;
    let writer = servers.writer();
    writer.all(Write::Create, 0..300).await?;
    let gate = Gate::new(servers.client());
    gate.hold_pages();
    let rig = Rig::start(gate, |builder| builder.watch_list(false).page_size(100).silence(HELD))?;
    // The informers' requests are not held: their watches deliver the changes that the reflector's
    // second page misses.
    let informers = Informers::start(setting, servers.port())?;
    let held = rig.gate.held().await;
    let Some(Request::List(ListRequest { continue_token: Some(token), .. })) = &held else {
        return Err(format!("the second page was not requested, but {held:?}").into());
    };
    // The first object is delivered before its page is complete. The last page has not been
    // delivered yet.
    until("the first object", FIRST, || rig.known() > 0).await?;
    writer.all(Write::Delete, 0..1).await?;
    writer.all(Write::Delete, 290..300).await?;
    writer.all(Write::Update, 1..20).await?;
    writer.all(Write::Create, 300..310).await?;
    writer.until_expired(token).await?;
    rig.gate.open();
    rig.settled(&writer).await?;

    let seen = rig.gate.seen();
    let first = seen.pages.first().map(|page| page.resource_version.clone()).unwrap_or_default();
    let whole = ListRequest {
        resource_version: first.clone(),
        not_older_than: true,
        ..ListRequest::default()
    };
    if !seen.requests.contains(&Request::List(whole)) {
        return Err(format!(
            "no list not older than version {first:?} was requested: {:?}",
            seen.requests
        )
        .into());
    }
    let last = seen.pages.last().map(|page| page.resource_version.as_str()).unwrap_or_default();
    if ResourceVersion::parse(last) < ResourceVersion::parse(&first) {
        return Err(
            format!("the list at version {last} is older than the first page, at {first}").into()
        );
    }
    rig.met_only(|fault| fault == Fault::Expired)?;
    let Counts { deleted, tombstones, .. } = rig.counts();
    if [rig.times(Fault::Expired), deleted, tombstones] != [1; 3] {
        return Err(format!(
            "one page must expire, and one deletion be delivered: {}",
            rig.summary()
        )
        .into());
    }
    // The watch continues from there.
    writer.all(Write::Update, 20..30).await?;
    rig.settled(&writer).await?;
    let informer_summary = informers.end(&writer, |fault| fault == Fault::Expired).await?;
    Ok(Outcome::Held(format!("{}; {informer_summary}", rig.summary())))
}
