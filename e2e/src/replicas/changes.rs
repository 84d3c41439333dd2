//! The outside writer, which changes the config maps of a group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::BoxError;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::history::Object;
use crate::servers::{NAMESPACE, writing_client_at};

/// The label of the config maps of a group. Its value is the name of the group.
pub const GROUP: &str = "e2e/group";
/// The number of pairs of config maps, of which each has one that is written with versions and one
/// that is written without.
const PAIRS: usize = 32;
/// The pause between two changes.
const PAUSE: Duration = Duration::from_millis(20);

/// A task that changes config maps, one after another. Dropping the value ends it.
pub struct Changes {
    /// Locked during each change, and while there are none.
    turn: Arc<Mutex<()>>,
    task: JoinHandle<()>,
}

impl Changes {
    /// Creates the config maps of the group, and begins to change them.
    pub async fn start(port: u16, group: &str) -> Result<Self, BoxError> {
        let maps: Api<ConfigMap> = Api::namespaced(writing_client_at(port)?, NAMESPACE);
        let names: Vec<_> = (0..PAIRS)
            .map(|number| format!("{group}-map-{number:03}"))
            .flat_map(|prefix| Object::ALL.map(|object| object.name(&prefix)))
            .collect();
        for name in &names {
            let metadata = ObjectMeta {
                name: Some(name.clone()),
                labels: Some(BTreeMap::from([(GROUP.to_owned(), group.to_owned())])),
                ..ObjectMeta::default()
            };
            let map = ConfigMap { metadata, ..ConfigMap::default() };
            maps.create(&PostParams::default(), &map).await?;
        }
        let turn = Arc::new(Mutex::new(()));
        let task = tokio::spawn(change(maps, names, Arc::clone(&turn)));
        Ok(Self { turn, task })
    }

    /// Waits until the change in progress has ended. There are no others until the guard is
    /// dropped.
    pub async fn paused(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn change(maps: Api<ConfigMap>, names: Vec<String>, turn: Arc<Mutex<()>>) {
    for number in 1_u64.. {
        let turn = turn.lock().await;
        let name = &names[fastrand::usize(..names.len())];
        let patch = Patch::Merge(json!({ "data": { "change": number.to_string() } }));
        // The history shows whether the config map was changed. The servers may be away.
        let _ = maps.patch(name, &PatchParams::default(), &patch).await;
        drop(turn);
        sleep(PAUSE).await;
    }
}
