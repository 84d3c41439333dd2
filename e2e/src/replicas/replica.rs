//! A replica: a process that is a member of a group, and reconciles the config maps of its shards.
//! A reconcile writes its stamp into the config map.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::BoxError;
use deltafifo_informer::reflector::Backoff;
use deltafifo_informer::runtime::{Controller, controller::Action};
use deltafifo_informer::sharding::{Permit, ShardBy, ShardGroup};
use deltafifo_informer::{KubeListerWatcher, SharedInformer, error_chain};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::changes::GROUP;
use super::history::{MapState, Stamp};
use super::{ReplicaOptions, SHARDS};
use crate::history::Object;
use crate::process::end_with_input;
use crate::servers::{NAMESPACE, client_at, writing_client_at};

/// The time for which reconciles may continue after their shard was assigned to another replica,
/// and the time after which a new replica takes shards from others.
const SECOND: Duration = Duration::from_secs(1);
/// The pause after a reconcile that failed.
const RETRY: Duration = Duration::from_millis(100);

/// The arguments of a replica.
#[derive(clap::Args)]
pub struct Replica {
    /// The port of the API server, or of a proxy to it
    #[arg(long)]
    port: u16,
    /// The name of the group
    #[arg(long)]
    group: String,
    /// The name of the replica
    #[arg(long)]
    identity: String,
    #[command(flatten)]
    options: ReplicaOptions,
}

impl Replica {
    /// Reconciles until SIGTERM arrives, or the standard input ends, which means that the scenario
    /// has ended.
    pub async fn run(&self) -> ExitCode {
        end_with_input();
        match self.reconcile().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {}", self.identity, error_chain(&*error));
                ExitCode::FAILURE
            }
        }
    }

    async fn reconcile(&self) -> Result<(), BoxError> {
        let mut terminated = signal(SignalKind::terminate())?;
        let group = self.group()?;
        let maps = self.informer(&group)?;
        let informer = maps.clone();
        let watching = tokio::spawn(async move { informer.run().await });
        if !self.options.split {
            maps.wait_for_sync().await?;
        }
        let controller = Controller::from_informer(&maps)
            .sharded(&group)
            .run(reconcile, |_, _, _| Action::requeue(RETRY), Arc::new(()))
            .for_each(|_| async {});
        let running = tokio::spawn(group.run_until(async move {
            terminated.recv().await;
        }));
        tokio::select! {
            ended = running => Ok(ended??),
            ended = watching => ended?.map_err(Into::into),
            () = controller => Err("the controller has ended".into()),
        }
    }

    fn group(&self) -> Result<ShardGroup, BoxError> {
        let ReplicaOptions { timing, split } = self.options;
        let identity = self.identity.clone();
        // A client with a time limit: a request that is never answered would keep its shard.
        let client = writing_client_at(self.port)?;
        let group = ShardGroup::builder(client, NAMESPACE, &self.group)
            .identity(&self.identity)
            .shards(SHARDS)
            .by(if split { ShardBy::Uid } else { ShardBy::Key })
            .lease_duration(timing.lease_duration)
            .renew_deadline(timing.renew_deadline)
            .retry_period(timing.retry_period)
            .drain_timeout(SECOND)
            .settle(SECOND)
            .on_error(move |error| eprintln!("{identity}: {}", error_chain(error)))
            .build()?;
        Ok(group)
    }

    fn informer(&self, group: &ShardGroup) -> Result<SharedInformer<ConfigMap>, BoxError> {
        let api = Api::<ConfigMap>::namespaced(client_at(self.port)?, NAMESPACE);
        let source = KubeListerWatcher::of_api(api, &()).labels(format!("{GROUP}={}", self.group));
        let (first, most, reset) = (RETRY, SECOND, Duration::from_secs(120));
        let builder = if self.options.split {
            SharedInformer::in_shards(group, source)
        } else {
            SharedInformer::builder(source)
        };
        Ok(builder
            .reflector(move |reflector| reflector.backoff(Backoff::new(first, most, reset)))
            .build()?)
    }
}

/// Writes a stamp into the config map, unless the map has the stamp of this term and change.
async fn reconcile(map: Arc<ConfigMap>, _: Arc<()>) -> Result<Action, kube::Error> {
    let name = map.metadata.name.as_deref().unwrap_or_default();
    let (Some(permit), Some((_, object))) = (Permit::current(), Object::of(name)) else {
        return Ok(Action::await_change());
    };
    let state = MapState::of(&map);
    let stamp = Stamp::of(&permit, state.change);
    if state.stamp.as_ref() != Some(&stamp) {
        let metadata = match object {
            Object::Versioned => json!({ "resourceVersion": map.metadata.resource_version }),
            Object::Plain => json!({}),
        };
        let patch = json!({ "metadata": metadata, "data": stamp.data() });
        let maps: Api<ConfigMap> = Api::namespaced(permit.client(), NAMESPACE);
        maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}
