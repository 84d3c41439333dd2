//! The scenario of many objects, one in a hundred of which changes while the reflector is cut off.
//! All objects are listed again, streamed and plain, and only the changes may be delivered. The
//! scenario then runs with informers, whose slow handlers must not delay the other handlers.

use std::time::Duration;

use deltafifo::BoxError;
use tokio::time::Instant;

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::gate::Gate;
use crate::informers::Informers;
use crate::oracle::Counts;
use crate::proxy::Proxy;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::wait::until;
use crate::writer::{Write, Writer, name};

/// The longest time that an initial list may take.
const FIRST: Duration = Duration::from_secs(120);

pub async fn run(setting: &Setting) -> Ended {
    let objects = setting.objects.unwrap_or(100_000);
    let mut servers = Servers::start(setting, Options::default()).await?;
    let writer = servers.writer();
    let from = Instant::now();
    writer.all(Write::Create, 0..objects).await?;
    let mut results =
        vec![format!("{objects} objects made in {:.1} s", from.elapsed().as_secs_f64())];

    for (how, streamed) in [("streamed", true), ("plain", false)] {
        let from = Instant::now();
        let rig = Rig::start(Gate::new(servers.client()), |builder| builder.watch_list(streamed))?;
        until("the initial list", FIRST, || rig.known() == objects).await?;
        let first = from.elapsed().as_secs_f64();
        rig.settled(&writer).await?;
        rig.gate.close().await;
        let before = rig.counts();

        let changed: Vec<_> = (0..objects).step_by(100).map(name).collect();
        let expected = Counts { updated: changed.len(), ..Counts::default() };
        writer.each(Write::Update, changed.into_iter()).await?;
        servers.kill_api().await?;
        servers.start_api().await?;
        let from = Instant::now();
        rig.gate.open();
        rig.received_more(expected.updated).await?;
        let again = from.elapsed().as_secs_f64();
        rig.settled(&writer).await?;
        rig.met_only(|fault| matches!(fault, Fault::Cut | Fault::Expired))?;
        let received = rig.counts().since(before);
        if received != expected || rig.times(Fault::Expired) == 0 {
            return Err(format!(
                "{received} received after the list, instead of {expected}: {}",
                rig.summary()
            )
            .into());
        }
        results.push(format!(
            "{how}: all in {first:.1} s, later {} that changed in {again:.1} s",
            expected.updated
        ));
    }
    results.push(informed(setting, &mut servers, &writer, objects).await?);
    Ok(Outcome::Held(results.join("; ")))
}

async fn informed(
    setting: &Setting,
    servers: &mut Servers,
    writer: &Writer,
    objects: usize,
) -> Result<String, BoxError> {
    let mut proxy = Proxy::to(servers.port())?;
    let mut informers = Informers::start(setting, proxy.port())?;
    informers.settled(writer).await?;
    proxy.cut().await?;
    let before = informers.clients();
    let changed: Vec<_> = (0..objects).step_by(100).map(name).collect();
    let expected = Counts { updated: changed.len(), ..Counts::default() };
    writer.each(Write::Update, changed.into_iter()).await?;
    servers.kill_api().await?;
    servers.start_api().await?;
    proxy.open()?;
    informers.settled(writer).await?;
    informers.check_received_since(before, |_| expected)?;
    informers.end(writer, |fault| matches!(fault, Fault::Cut | Fault::Expired)).await
}
