//! The scenario in which the API server is killed when nothing has been written since the
//! reflector's version. The watch resumes, and nothing is listed.
//!
//! The API server writes a lease of its own from time to time. If it does so after the reflector's
//! version, the watch is rightly refused, and the scenario is tried again, at most three times in
//! all.

use deltafifo_informer::lister_watcher::Request;

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::gate::Gate;
use crate::informers::Informers;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::writer::Write;

const ATTEMPTS: usize = 3;

pub async fn run(setting: &Setting) -> Ended {
    let mut servers = Servers::start(setting, Options::default()).await?;
    let writer = servers.writer();
    writer.all(Write::Create, 0..300).await?;
    let rig = Rig::start(Gate::new(servers.client()), |builder| builder)?;
    rig.settled(&writer).await?;
    let informers = Informers::start(setting, servers.port())?;

    for attempt in 1..=ATTEMPTS {
        let last = writer.create(&format!("before-{attempt}")).await?;
        rig.reached(&last).await?;
        let before = rig.gate.seen().requests.len();
        servers.kill_api().await?;
        rig.gate.close().await;
        servers.start_api().await?;
        rig.gate.open();
        let next = writer.create(&format!("after-{attempt}")).await?;
        rig.reached(&next).await?;
        rig.settled(&writer).await?;
        rig.met_only(|fault| matches!(fault, Fault::Cut | Fault::Expired))?;
        let resumes = |request: &Request| matches!(request, Request::Watch(watch) if !watch.send_initial_events);
        let since = rig.gate.seen().requests.split_off(before);
        if !since.is_empty() && since.iter().all(resumes) {
            let informer_summary = informers
                .end(&writer, |fault| fault.is_restart() || fault == Fault::Expired)
                .await?;
            return Ok(Outcome::Held(format!(
                "in attempt {attempt}: {}; {informer_summary}",
                rig.summary()
            )));
        }
    }
    Err(format!("the watch was refused {ATTEMPTS} times: {}", rig.summary()).into())
}
