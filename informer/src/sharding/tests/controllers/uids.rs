//! Tests of groups whose shards are decided by the uids of the objects.

use std::sync::Arc;

use deltafifo_testkit::{Fault, Resource, Verb};
use kube::ResourceExt;
use tokio::time::timeout;

use super::rig::*;
use crate::runtime::controller::Action;
use crate::sharding::ShardBy;

#[tokio::test(start_paused = true)]
async fn object_that_is_created_again_is_reconciled_by_the_owner_of_its_uid() {
    let (server, world) = (server(), Arc::<World>::default());
    let start =
        |pod| Worker::start_with(&server, &world, pod, ShardBy::Uid, Action::await_change());
    let (a, b) = (start("a"), start("b"));
    a.replica.owns(8).await;
    b.replica.owns(8).await;
    settled().await;
    world.done.lock().clear();
    let name = object_of(3).name_any();
    for round in 2..20 {
        server.delete(&Resource::config_maps(), "shop", &name).unwrap();
        write_map(&server, 3, round);
        settled().await;
    }
    assert_eq!(world.done.lock().len(), 18);
    assert_eq!(world.deleted.lock().len(), 18);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn object_that_was_created_again_with_a_uid_of_another_shard_does_not_delay_a_move() {
    let (server, world) = (server(), Arc::<World>::default());
    let start =
        |pod| Worker::start_with(&server, &world, pod, ShardBy::Uid, Action::await_change());
    let a = start("a");
    a.replica.owns(16).await;
    // The fault below must not strike the watch of `a`.
    settled().await;
    server.fault(Fault::silence().on(Verb::Watch).when(is_of_maps));
    let b = start("b");
    watched(&server, is_of_maps, 2).await;
    for shard in 0..16 {
        server.delete(&Resource::config_maps(), "shop", &object_of(shard).name_any()).unwrap();
        write_map(&server, shard, 2);
    }
    // The watch of `b` begins when the reflector gives the silent one up.
    watched(&server, is_of_maps, 3).await;
    timeout(2 * SECOND, b.replica.owns(8)).await.expect("its store holds the list");
    world.check();
}
