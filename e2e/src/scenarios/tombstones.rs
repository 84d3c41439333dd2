//! Objects are deleted while the reflector is cut off, and the API server then starts anew, so that no watch can tell
//! of it: deletions come as tombstones, and what was deleted and made again as an update.

use super::{Ended, Outcome, Setting};
use crate::fault::Fault;
use crate::oracle::Counts;
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

    let expected = Counts { added: 50, updated: 100, deleted: 100, tombstones: 100 };
    for (rig, before) in rigs.iter().zip(before) {
        rig.settled(&writer).await?;
        rig.met_only(|fault| matches!(fault, Fault::Cut | Fault::Expired))?;
        let told = rig.counts().since(before);
        if told != expected {
            return Err(format!("{told} while it was cut off, and not {expected}").into());
        }
    }
    Ok(Outcome::Held(format!("streamed and plain: {expected} while cut off")))
}
