//! The scenario in which etcd is stopped for ten seconds while four writers try to write. The
//! watch must survive, and no change may be lost.

use std::time::Duration;

use super::{Ended, Outcome, Setting};
use crate::churn::Churn;
use crate::gate::Gate;
use crate::informers::{CLIENT_GO, Informers};
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::writer::Write;

const AWAY: Duration = Duration::from_secs(10);
const OBJECTS: usize = 500;

pub async fn run(setting: &Setting) -> Ended {
    let mut servers = Servers::start(setting, Options::default()).await?;
    let writer = servers.writer();
    writer.all(Write::Create, 0..OBJECTS).await?;
    let rig = Rig::start(Gate::new(servers.client()), |builder| builder)?;
    rig.settled(&writer).await?;
    let mut informers = Informers::start(setting, servers.port())?;
    informers.settled(&writer).await?;

    let churn = Churn::start(&writer, OBJECTS);
    rig.received_more(100).await?;
    let before = rig.gate.seen().requests.len();
    let full_requests = informers.clients().map(|client| client.full_requests);
    servers.stop_etcd_for(AWAY).await?;
    rig.received_more(100).await?;
    let written = churn.stop().await?;
    rig.settled(&writer).await?;
    rig.met_only(|_| false)?;
    let repeated = rig.gate.seen().requests.len() - before;
    if repeated != 0 {
        return Err(format!("{repeated} requests were repeated: {}", rig.summary()).into());
    }
    for (client, before) in informers.clients().iter().zip(full_requests) {
        if client.name != CLIENT_GO && client.full_requests != before {
            return Err(format!("{} has requested all objects again", client.name).into());
        }
    }
    let informer_summary = informers.end(&writer, |_| false).await?;
    Ok(Outcome::Held(format!("{written} writes: {}; {informer_summary}", rig.summary())))
}
