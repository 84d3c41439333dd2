//! The scenario in which the API server is killed, stopped and restarted while four writers change
//! objects. No change may be lost, and no version may go back.

use super::{Ended, Outcome, Setting};
use crate::churn::Churn;
use crate::fault::Fault;
use crate::gate::Gate;
use crate::informers::Informers;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::writer::Write;

pub async fn run(setting: &Setting) -> Ended {
    let (objects, restarts) = if setting.smoke { (1_000, 1) } else { (10_000, 5) };
    let objects = setting.objects.unwrap_or(objects);
    let mut servers = Servers::start(setting, Options::default()).await?;
    let writer = servers.writer();
    let rig = Rig::start(Gate::new(servers.client()), |builder| builder)?;
    let mut informers = Informers::start(setting, servers.port())?;
    writer.all(Write::Create, 0..objects).await?;
    informers.fall_asleep();

    let churn = Churn::start(&writer, objects);
    for restart in 0..restarts {
        rig.received_more(objects / 10).await?;
        match restart % 2 {
            0 => servers.kill_api().await?,
            _ => servers.stop_api().await?,
        }
        servers.start_api().await?;
    }
    rig.received_more(objects / 10).await?;
    let written = churn.stop().await?;
    rig.settled(&writer).await?;
    let expected = |fault: Fault| fault.is_restart() || fault == Fault::Expired;
    rig.met_only(expected)?;
    informers.wake_up(&writer).await?;
    let informer_summary = informers.end(&writer, expected).await?;
    Ok(Outcome::Held(format!(
        "{objects} objects, {written} writes, {restarts} restarts: {}; {informer_summary}",
        rig.summary()
    )))
}
