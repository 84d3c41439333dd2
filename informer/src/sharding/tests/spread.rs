//! Tests of the warning of a shard that has far more objects than others.

use std::convert::Infallible;
use std::sync::Arc;

use deltafifo_testkit::{ApiServer, Resource, ShardSelectors};
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

/// Returns a server with this number of config maps in one namespace.
fn server_of(maps: u32, shard_selectors: ShardSelectors) -> ApiServer {
    let server = ApiServer::builder()
        .resource(leases())
        .resource(Resource::config_maps())
        .shard_selectors(shard_selectors)
        .build();
    for number in 0..maps {
        let metadata = json!({ "namespace": "shop", "name": format!("cart-{number}") });
        let map = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata });
        server.apply(map).unwrap();
    }
    server
}

/// Starts a controller of config maps in a replica.
fn start(server: &ApiServer, replica: &Replica, is_split: bool) -> [JoinHandle<()>; 2] {
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
    [tokio::spawn(controller), tokio::spawn(async move { informer.run().await.unwrap() })]
}

fn warnings(messages: &Messages) -> usize {
    let logged = messages.0.lock();
    logged.iter().filter(|message| message.contains("far more objects")).count()
}

#[tokio::test(start_paused = true)]
async fn namespace_with_most_objects_is_logged_once_in_both_modes() {
    for (by, is_split, expected) in
        [(ShardBy::Namespace, false, 1), (ShardBy::Namespace, true, 1), (ShardBy::Key, false, 0)]
    {
        let server = server_of(1_000, ShardSelectors::Ignored);
        let messages = Messages::default();
        let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
        let replica = Replica::start_with(builder_of(server.client(), "a").by(by));
        let tasks = start(&server, &replica, is_split);
        replica.owns(16).await;
        // Shards move to another member and back.
        let mut other = Replica::start_with(builder_of(server.client(), "b").by(by));
        other.owns(8).await;
        other.stop();
        assert_eq!(other.ended().await, Ok(()));
        replica.owns(16).await;
        sleep(SECOND).await;
        assert_eq!(warnings(&messages), expected, "{by:?}, {is_split}");
        tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The first list has the objects of all shards, unless the server selects.
#[tokio::test(start_paused = true)]
async fn owner_of_a_single_shard_in_split_mode_finds_that_it_is_large_unless_the_server_selects() {
    for (selectors, expected) in [
        (ShardSelectors::Ignored, 1),
        (ShardSelectors::Honoured, 0),
        (ShardSelectors::HonouredInLists, 0),
    ] {
        let server = server_of(1_000, selectors);
        let messages = Messages::default();
        let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
        let replicas = ["a", "b"].map(|pod| {
            let builder = builder_of(server.client(), pod).by(ShardBy::Namespace).shards(2);
            Replica::start_with(builder)
        });
        let tasks = replicas.each_ref().map(|replica| start(&server, replica, true));
        for replica in &replicas {
            replica.owns(1).await;
        }
        sleep(SECOND).await;
        assert_eq!(warnings(&messages), expected, "{selectors:?}");
        tasks.iter().flatten().for_each(JoinHandle::abort);
    }
}
