//! The scenarios of an API server that does not stream lists, because its feature for streamed
//! lists is off or because its etcd is too old. The reflector requests a plain list at once, and
//! plain lists from then on.

use deltafifo_informer::lister_watcher::Request;

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::gate::Gate;
use crate::informers::Informers;
use crate::rig::Rig;
use crate::servers::{Options, Servers};
use crate::writer::Write;

/// Runs the scenario of an API server whose feature for streamed lists is off. It responds that the
/// request is invalid.
pub async fn by_gate(setting: &Setting) -> Ended {
    let arguments = vec!["--feature-gates=WatchList=false"];
    falls_back(setting, Options { arguments, ..Options::default() }, Fault::Status(422)).await
}

/// Runs the scenario of etcd 3.4, which cannot send the progress of a watch, so the API server over
/// it cannot stream lists. It responds with an internal error.
pub async fn by_etcd34(setting: &Setting) -> Ended {
    match setting.etcd34.clone() {
        Some(etcd) => {
            falls_back(
                setting,
                Options { etcd: Some(etcd), ..Options::default() },
                Fault::Status(500),
            )
            .await
        }
        None => Ok(Outcome::Skipped("DELTAFIFO_ETCD34 names no etcd 3.4".to_owned())),
    }
}

async fn falls_back(setting: &Setting, options: Options, refusal: Fault) -> Ended {
    let mut servers = Servers::start(setting, options).await?;
    let writer = servers.writer();
    writer.all(Write::Create, 0..300).await?;
    let rig = Rig::start(Gate::new(servers.client()), |builder| builder)?;
    rig.settled(&writer).await?;
    let mut informers = Informers::start(setting, servers.port())?;
    informers.settled(&writer).await?;

    // A later relist must behave equally.
    rig.gate.close().await;
    writer.all(Write::Update, 0..50).await?;
    writer.all(Write::Delete, 50..100).await?;
    servers.kill_api().await?;
    servers.start_api().await?;
    rig.gate.open();
    rig.settled(&writer).await?;
    rig.met_only(|fault| fault == refusal || matches!(fault, Fault::Cut | Fault::Expired))?;
    let informer_summary = informers
        .end(&writer, |fault| fault == refusal || fault.is_restart() || fault == Fault::Expired)
        .await?;

    let requests = rig.gate.seen().requests;
    let streamed = requests.iter().filter(|request| is_streamed(request)).count();
    let fell_back = requests
        .windows(2)
        .filter(|pair| is_streamed(&pair[0]) && matches!(pair[1], Request::List(_)))
        .count();
    if [streamed, fell_back, rig.times(refusal)] != [2; 3] {
        return Err(format!(
            "two streams must be refused, and lists follow: {requests:?}, {}",
            rig.summary()
        )
        .into());
    }
    Ok(Outcome::Held(format!("{}; {informer_summary}", rig.summary())))
}

fn is_streamed(request: &Request) -> bool {
    matches!(request, Request::Watch(watch) if watch.send_initial_events)
}
