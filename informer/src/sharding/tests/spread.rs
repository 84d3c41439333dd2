//! Tests of the warning of a shard that has far more objects than others.

use std::convert::Infallible;
use std::sync::Arc;

use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::messages::Messages;
use super::rig::*;
use crate::runtime::Controller;
use crate::runtime::controller::Action;
use crate::sharding::ShardBy;
use crate::{KubeListerWatcher, SharedInformer};

#[tokio::test(start_paused = true)]
async fn namespace_with_most_objects_is_logged_once_in_both_modes() {
    for (by, is_split, expected) in
        [(ShardBy::Namespace, false, 1), (ShardBy::Namespace, true, 1), (ShardBy::Key, false, 0)]
    {
        let (maps, leases) = (Resource::config_maps(), leases());
        let server = ApiServer::builder().resource(leases).resource(maps).build();
        for number in 0..1_000 {
            let metadata = json!({ "namespace": "shop", "name": format!("cart-{number}") });
            let map = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata });
            server.apply(map).unwrap();
        }
        let messages = Messages::default();
        let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
        let replica = Replica::start_with(builder_of(server.client(), "a").by(by));
        let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
        let informer = if is_split {
            SharedInformer::<ConfigMap>::in_shards(&replica.group, source)
        } else {
            SharedInformer::builder(source)
        };
        let informer = informer.build().unwrap();
        let controller = Controller::from_informer(&informer)
            .sharded(&replica.group)
            .run(
                |_, _| async { Ok::<_, Infallible>(Action::await_change()) },
                |_, _, _| Action::await_change(),
                Arc::new(()),
            )
            .for_each(|_| async {});
        let tasks =
            [tokio::spawn(controller), tokio::spawn(async move { informer.run().await.unwrap() })];
        replica.owns(16).await;
        // Shards move to another member and back.
        let mut other = Replica::start_with(builder_of(server.client(), "b").by(by));
        other.owns(8).await;
        other.stop();
        assert_eq!(other.ended().await, Ok(()));
        replica.owns(16).await;
        sleep(SECOND).await;
        let logged = messages.0.lock();
        let warnings = logged.iter().filter(|message| message.contains("far more objects"));
        assert_eq!(warnings.count(), expected, "{by:?}, {is_split}");
        tasks.iter().for_each(JoinHandle::abort);
    }
}
