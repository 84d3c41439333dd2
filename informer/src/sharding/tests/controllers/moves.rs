//! Tests of shards that move from one replica to another.

use std::sync::Arc;

use deltafifo_testkit::Resource;
use kube::ResourceExt;
use tokio::time::{sleep, timeout};

use super::rig::*;
use crate::runtime::controller::Action;
use crate::sharding::ShardBy;

#[tokio::test(start_paused = true)]
async fn moved_objects_are_reconciled_by_their_new_owner_alone() {
    let (server, world) = (server(), Arc::<World>::default());
    let a = Worker::start(&server, &world, "a");
    let all = a.replica.owns(16).await;
    settled().await;
    assert_eq!(world.reconciled("a"), names(all));

    let b = Worker::start(&server, &world, "b");
    let of_b = b.replica.owns(8).await;
    settled().await;
    assert_eq!(world.reconciled("b"), names(of_b));
    assert!(world.reconciled("a").is_empty());

    (0..16).for_each(|shard| write_map(&server, shard, 2));
    settled().await;
    let of_a = a.replica.owns(8).await;
    assert_eq!(world.reconciled("a"), names(of_a));
    assert_eq!(world.reconciled("b"), names(of_b));

    let mut a = a;
    a.replica.stop();
    a.replica.ended().await.unwrap();
    b.replica.owns(16).await;
    settled().await;
    assert_eq!(world.reconciled("b"), names(of_a));
    assert!(world.reconciled("a").is_empty());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn each_object_is_reconciled_by_one_member_at_a_time_while_members_come_and_go() {
    let (server, world) = (server(), Arc::<World>::default());
    let mut workers = Vec::new();
    for (round, pod) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        workers.push(Worker::start(&server, &world, pod));
        for second in 0..40 {
            (0..16).for_each(|shard| write_map(&server, shard, second));
            sleep(SECOND / 4).await;
        }
        if round >= 2 {
            let mut oldest = workers.remove(0);
            oldest.replica.stop();
            oldest.replica.ended().await.unwrap();
        }
    }
    (0..16).for_each(|shard| write_map(&server, shard, 100));
    sleep(30 * SECOND).await;
    let done = world.done.lock();
    for name in names((0..16).collect()) {
        let is_last = |(_, of, value): &&_| *of == name && *value == "100";
        assert_eq!(done.iter().filter(is_last).count(), 1, "{name}");
    }
    drop(done);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn running_reconcile_delays_the_release_until_it_ends() {
    let (server, world) = (server(), Arc::<World>::default());
    world.holds.send_replace(true);
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    settled().await;
    let b = Worker::start(&server, &world, "b");
    // The shards drain once `b` has settled.
    a.replica.owns(8).await;
    sleep(5 * SECOND).await;
    assert!(b.replica.group.owned().borrow().is_empty());
    world.holds.send_replace(false);
    let of_b = timeout(2 * SECOND, b.replica.owns(8)).await.expect("it is released at once");
    settled().await;
    assert_eq!(*world.dropped.lock(), 0);
    assert_eq!(world.reconciled("a"), names((0..16).collect()));
    assert_eq!(world.reconciled("b"), names(of_b));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn reconcile_beyond_the_drain_timeout_is_dropped_and_forgotten() {
    let (server, world) = (server(), Arc::<World>::default());
    world.holds.send_replace(true);
    let a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    settled().await;
    let b = Worker::start(&server, &world, "b");
    let of_b = b.replica.owns(8).await;
    assert_eq!(*world.dropped.lock(), 8);
    world.holds.send_replace(false);
    settled().await;
    assert_eq!(world.reconciled("a"), names(a.replica.owns(8).await));
    assert_eq!(world.reconciled("b"), names(of_b));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn requeue_of_a_moved_shard_comes_to_nothing() {
    let (server, world) = (server(), Arc::<World>::default());
    let requeue = Action::requeue(100 * SECOND);
    let start = |pod| Worker::start_with(&server, &world, pod, ShardBy::Key, requeue.clone());
    let a = start("a");
    a.replica.owns(16).await;
    settled().await;
    let b = start("b");
    let (of_b, of_a) = (b.replica.owns(8).await, a.replica.owns(8).await);
    settled().await;
    world.done.lock().clear();
    sleep(130 * SECOND).await;
    assert_eq!(world.reconciled("a"), names(of_a));
    assert_eq!(world.reconciled("b"), names(of_b));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_while_nobody_owns_its_shard_calls_no_deletion_handler() {
    let (server, world) = (server(), Arc::<World>::default());
    let mut a = Worker::start(&server, &world, "a");
    a.replica.owns(16).await;
    settled().await;
    let delete = |shard| {
        let name = object_of(shard).name_any();
        server.delete(&Resource::config_maps(), "shop", &name).unwrap();
        name
    };
    let owned = delete(0);
    settled().await;
    assert_eq!(*world.deleted.lock(), [("a".to_owned(), owned)]);
    a.replica.stop();
    a.replica.ended().await.unwrap();
    delete(1);
    settled().await;
    let b = Worker::start(&server, &world, "b");
    b.replica.owns(16).await;
    settled().await;
    assert_eq!(world.deleted.lock().len(), 1);
    world.check();
}
