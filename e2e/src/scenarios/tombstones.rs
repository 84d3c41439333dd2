//! The scenario in which objects are deleted while the reflector is cut off. The API server then
//! restarts, so no watch can deliver the deletions. They are delivered as tombstones. An object
//! that was deleted and created again is delivered as an update. Only this project's informers
//! notify of a deletion and an addition instead, because they never notify of an update from one
//! object to another.

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::informers::{CLIENT_GO, Informers};
use crate::oracle::Counts;
use crate::proxy::Proxy;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::writer::Write;

pub async fn run(setting: &Setting) -> Ended {
    let mut servers = Servers::start(setting, Options::default()).await?;
    let writer = servers.writer();
    writer.all(Write::Create, 0..500).await?;
    let rigs = Rig::both(&servers)?;
    for rig in &rigs {
        rig.settled(&writer).await?;
        rig.gate.close().await;
    }
    let mut proxy = Proxy::to(servers.port())?;
    let mut informers = Informers::start(setting, proxy.port())?;
    informers.settled(&writer).await?;
    proxy.cut().await?;
    let clients = informers.clients();
    let before = rigs.each_ref().map(Rig::counts);

    writer.all(Write::Delete, 0..150).await?;
    writer.all(Write::Create, 100..150).await?;
    writer.all(Write::Update, 150..200).await?;
    writer.all(Write::Create, 500..550).await?;
    servers.kill_api().await?;
    servers.start_api().await?;
    for rig in &rigs {
        rig.gate.open();
    }
    proxy.open()?;

    let expected =
        Counts { added: 50, updated: 100, deleted: 100, tombstones: 100, ..Counts::default() };
    for (rig, before) in rigs.iter().zip(before) {
        rig.settled(&writer).await?;
        rig.met_only(|fault| matches!(fault, Fault::Cut | Fault::Expired))?;
        let received = rig.counts().since(before);
        if received != expected {
            return Err(format!("{received} received after the cut, instead of {expected}").into());
        }
    }
    informers.settled(&writer).await?;
    let apart =
        Counts { added: 100, updated: 50, deleted: 150, tombstones: 150, ..Counts::default() };
    informers
        .check_received_since(clients, |name| if name == CLIENT_GO { expected } else { apart })?;
    let summary =
        informers.end(&writer, |fault| matches!(fault, Fault::Cut | Fault::Expired)).await?;
    Ok(Outcome::Held(format!("streamed and plain: {expected} while cut off; {summary}")))
}
