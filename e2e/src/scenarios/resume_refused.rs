//! The scenario in which the reflector is cut off, others write, and the API server restarts. The
//! oldest version that the server can watch from is then newer than the reflector's. So the watch
//! is refused (410, as an event), and everything is listed again.

use deltafifo::ResourceVersion;
use deltafifo_informer::lister_watcher::Request;

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::informers::Informers;
use crate::proxy::Proxy;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::writer::Write;

pub async fn run(setting: &Setting) -> Ended {
    let mut servers = Servers::start(setting, Options::default()).await?;
    let writer = servers.writer();
    let rigs = Rig::both(&servers)?;
    let mut proxy = Proxy::to(servers.port())?;
    let mut informers = Informers::start(setting, proxy.port())?;
    writer.all(Write::Create, 0..300).await?;
    for rig in &rigs {
        rig.settled(&writer).await?;
        rig.gate.close().await;
    }
    informers.settled(&writer).await?;
    proxy.cut().await?;
    let full_requests = informers.clients().map(|client| client.full_requests);
    let version = rigs.each_ref().map(Rig::version);

    writer.all(Write::Update, 0..100).await?;
    writer.all(Write::Delete, 100..150).await?;
    writer.all(Write::Create, 300..350).await?;
    servers.kill_api().await?;
    servers.start_api().await?;
    for rig in &rigs {
        rig.gate.open();
    }
    proxy.open()?;

    for (rig, version) in rigs.iter().zip(version) {
        rig.settled(&writer).await?;
        rig.met_only(|fault| matches!(fault, Fault::Cut | Fault::Expired))?;
        let resumed = rig.gate.seen().requests.into_iter().any(|request| match request {
            Request::Watch(watch) => {
                !watch.send_initial_events
                    && ResourceVersion::parse(&watch.resource_version) == version
            }
            Request::List(_) => false,
        });
        if !resumed || rig.times(Fault::Expired) == 0 {
            return Err(format!(
                "no watch from version {version:?} was refused: {}",
                rig.summary()
            )
            .into());
        }
    }
    informers.settled(&writer).await?;
    for (client, before) in informers.clients().iter().zip(full_requests) {
        if client.full_requests == before {
            return Err(format!("{} went on from a version that has expired", client.name).into());
        }
    }
    let informer_summary =
        informers.end(&writer, |fault| matches!(fault, Fault::Cut | Fault::Expired)).await?;
    let [streamed, plain] = rigs.map(|rig| rig.summary());
    Ok(Outcome::Held(format!("streamed: {streamed}; plain: {plain}; {informer_summary}")))
}
