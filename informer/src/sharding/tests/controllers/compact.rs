//! A test of a controller over compact objects.

use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use super::rig::*;
use crate::runtime::controller::Action;
use crate::runtime::{Controller, watcher};
use crate::sharding::ShardBy;

#[tokio::test(start_paused = true)]
async fn compact_object_is_in_the_shard_of_its_whole_uid() {
    let (server, world) = (server(), Arc::<World>::default());
    *world.by.lock() = Some(ShardBy::Uid);
    let replica = Replica::start_with(builder_of(server.client(), "a").by(ShardBy::Uid));
    let reconciling = world.clone();
    let controller = Controller::new(Api::all(server.client()), watcher::Config::default())
        .compact()
        .sharded(&replica.group)
        .run(
            move |map: Arc<ConfigMap>, _| {
                let world = reconciling.clone();
                async move {
                    world.reconcile("a", &map).await;
                    Ok::<_, std::fmt::Error>(Action::await_change())
                }
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        )
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);
    let all = replica.owns(16).await;
    settled().await;
    controller.abort();
    assert_eq!(world.reconciled("a"), names(all));
    world.check();
}
