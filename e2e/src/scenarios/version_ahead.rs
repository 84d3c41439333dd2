//! The scenario in which the reflector asks for all objects at a version that the API server has
//! not reached. This happens with a server that lags behind the other servers of a load balancer.
//! The response is a 504 after some seconds, and the reflector then asks for the newest version.
//!
//! The gate increases the requested version, because a server whose cache really lags would require
//! a second server.

use deltafifo_informer::lister_watcher::Request;

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::informers::Informers;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::writer::Write;

pub async fn run(setting: &Setting) -> Ended {
    let mut servers = Servers::start(setting, Options::default()).await?;
    let writer = servers.writer();
    writer.all(Write::Create, 0..300).await?;
    let rigs = Rig::both(&servers)?;
    let mut informers = Informers::start(setting, servers.port())?;
    for rig in &rigs {
        rig.settled(&writer).await?;
        rig.gate.close().await;
        rig.gate.move_ahead();
    }
    informers.settled(&writer).await?;
    let before = rigs.each_ref().map(|rig| rig.gate.seen().requests.len());

    // Makes the watch fail, so that all objects are requested.
    writer.all(Write::Update, 0..50).await?;
    servers.kill_api().await?;
    servers.start_api().await?;
    for rig in &rigs {
        rig.gate.open();
    }

    for (rig, before) in rigs.iter().zip(before) {
        rig.settled(&writer).await?;
        rig.met_only(|fault| matches!(fault, Fault::Cut | Fault::Expired | Fault::TooLarge))?;
        let seen = rig.gate.seen();
        let newest = seen.requests[before..].iter().any(|request| match request {
            Request::List(list) => list.resource_version.is_empty() && !list.not_older_than,
            Request::Watch(watch) => watch.send_initial_events && watch.resource_version.is_empty(),
        });
        if !newest || !seen.faults.contains(&Fault::TooLarge) {
            return Err(format!(
                "nothing was too large, or the newest was not requested: {:?}",
                seen.requests
            )
            .into());
        }
    }
    let [streamed, plain] = rigs.map(|rig| rig.summary());
    // The informers see the server go away, but no version that it has not reached.
    let informer_summary =
        informers.end(&writer, |fault| fault.is_restart() || fault == Fault::Expired).await?;
    Ok(Outcome::Held(format!("streamed: {streamed}; plain: {plain}; {informer_summary}")))
}
