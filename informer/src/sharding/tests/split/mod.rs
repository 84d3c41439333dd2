//! Tests of split mode: controllers over informers that contain only the objects of their member's
//! shards, on servers that shard, that do not, and that shard lists only.

mod world;

use std::collections::{BTreeMap, BTreeSet};

use deltafifo_testkit::{Fault, Request, Resource, ShardSelectors, Verb, status};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{sleep, timeout};

use super::rig::{HOUR, Replica, SECOND, builder_of, leases, members, name_of, shard_lease};
use crate::sharding::ShardBy;
use crate::{KubeListerWatcher, SharedInformer};
use world::{OBJECTS, PROPERTIES, Related, SERVERS, Worker, World, key_of, settled};

#[tokio::test(start_paused = true)]
async fn each_object_is_held_and_reconciled_by_the_owner_of_its_shard_alone() {
    for (by, server) in PROPERTIES.into_iter().flat_map(|by| SERVERS.map(|server| (by, server))) {
        let world = World::new(by, server);
        let a = Worker::<ConfigMap>::start(&world, "a");
        a.replica.owns(16).await;
        settled().await;
        world.check(&[&a]);

        let b = Worker::<ConfigMap>::start(&world, "b");
        b.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &b]);

        world.done.lock().clear();
        (0..OBJECTS + 12).for_each(|number| world.write(number));
        settled().await;
        world.check(&[&a, &b]);
        assert_eq!(world.done.lock().len(), OBJECTS + 12, "each change is reconciled once");

        let c = Worker::<ConfigMap>::start(&world, "c");
        c.replica.owns(5).await;
        settled().await;
        world.check(&[&a, &b, &c]);
        b.stop().await;
        a.replica.owns(8).await;
        c.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &c]);
        drop(a);
        c.replica.owns(16).await;
        settled().await;
        world.check(&[&c]);
        assert_eq!(*world.deleted.lock(), [], "the move of a shard is no deletion");

        world.delete(7);
        settled().await;
        world.check(&[&c]);
        assert_eq!(*world.deleted.lock(), [("c".to_owned(), key_of(7))]);
    }
}

/// Otherwise a version of the program without the permission to list would take shards that others
/// work on.
#[tokio::test(start_paused = true)]
async fn replica_that_cannot_list_takes_no_shards() {
    for has_controller in [true, false] {
        let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
        let a = Worker::<ConfigMap>::start(&world, "a");
        a.replica.owns(16).await;
        let is_list = |request: &Request| {
            request.verb() == Verb::List && request.plural() == Some("configmaps")
        };
        let refused = Fault::status(status::forbidden(&Resource::config_maps()));
        world.server.fault(refused.when(is_list).times(usize::MAX));
        let b = Worker::<ConfigMap>::start(&world, "b");
        if !has_controller {
            b.tasks[0].abort();
        }
        sleep(90 * SECOND).await;
        assert_eq!(a.replica.group.owned().borrow().len(), 16, "{has_controller}");
        assert_eq!(members(&world.server).await.len(), 1, "the second replica is no member");
        let reported = b.replica.reported();
        assert!(reported[0].contains("an informer has not synced"), "{reported:?}");
        world.server.clear_faults();
        b.replica.owns(8).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_list_fills_all_shards_that_are_claimed_at_a_time() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let a = Worker::<ConfigMap>::start(&world, "a");
    a.replica.owns(16).await;
    let limits: Vec<_> = world.requests(Verb::List).iter().map(Request::limit).collect();
    assert_eq!(limits, [Some(1), Some(500)], "the first shows that the replica may list");
}

#[tokio::test(start_paused = true)]
async fn claims_that_are_not_answered_do_not_delay_the_fill_of_other_shards() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    // The attempts of each shard begin at other times, so one of them is always in flight.
    for (shard, failures) in [(5, 0), (6, 1), (7, 2)] {
        let claim = |fault: Fault| {
            let name = shard_lease(shard);
            fault.on(Verb::Update).when(move |request| request.name() == Some(&*name))
        };
        for _ in 0..failures {
            world.server.fault(claim(Fault::status(status::internal_error("busy"))));
        }
        world.server.fault(claim(Fault::silence()).times(usize::MAX));
    }
    let replica = Replica::start_with(builder_of(world.server.client(), "a").by(world.by));
    let owned = timeout(8 * SECOND, replica.owns(13)).await.expect("they are owned");
    assert!([5, 6, 7].iter().all(|shard| !owned.contains(*shard)));
}

/// Without a release, the member would still have the objects from before, and would own the shard
/// without another list.
#[tokio::test(start_paused = true)]
async fn shard_that_is_claimed_again_is_listed_again() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let a = Worker::<ConfigMap>::start(&world, "a");
    a.replica.owns(16).await;
    let b = Worker::<ConfigMap>::start(&world, "b");
    b.replica.owns(8).await;
    settled().await;
    world.requests(Verb::List);
    drop(b);
    a.replica.owns(16).await;
    let lists = world.requests(Verb::List);
    assert!(!lists.is_empty());
    assert!(lists.iter().all(|list| list.resource_version().is_empty()), "the newest state");
    settled().await;
    world.check(&[&a]);
}

#[tokio::test(start_paused = true)]
async fn member_that_loses_its_lease_holds_nothing_until_it_has_claimed_again() {
    let world = World::new(ShardBy::Uid, ShardSelectors::Honoured);
    let a = Worker::<ConfigMap>::start(&world, "a");
    a.replica.owns(16).await;
    settled().await;
    let member = members(&world.server).await.remove(0);
    world.server.delete(&leases(), "shop", &name_of(&member)).unwrap();
    a.replica.owns(0).await;
    settled().await;
    assert_eq!(a.stored(), BTreeMap::new());
    let number_of_requests = world.server.requests().len();
    a.replica.owns(16).await;
    settled().await;
    world.check(&[&a]);
    assert!(world.server.requests().len() > number_of_requests);
    assert_eq!(*world.deleted.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn member_whose_run_is_dropped_holds_nothing_and_sends_no_requests() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let group = builder_of(world.server.client(), "a").build().unwrap();
    let source = KubeListerWatcher::new::<ConfigMap>(world.server.client(), &(), None);
    let maps = SharedInformer::<ConfigMap>::in_shards(&group, source).build().unwrap();
    let running = maps.clone();
    let informer = tokio::spawn(async move { running.run().await.unwrap() });
    let run = tokio::spawn(group.run_until(std::future::pending()));
    let owned = group.owned().wait_for(|owned| owned.len() == 16).await.map(|owned| owned.len());
    assert_eq!((owned.unwrap(), maps.store().len()), (16, OBJECTS));
    run.abort();
    settled().await;
    assert!(maps.store().is_empty() && maps.has_synced());
    world.server.forget_requests();
    sleep(HOUR).await;
    assert_eq!(world.server.requests().len(), 0);
    informer.abort();
}

#[tokio::test(start_paused = true)]
async fn informer_that_is_built_later_has_the_shards_that_its_member_owns() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let replica = Replica::start_with(builder_of(world.server.client(), "a").by(world.by));
    replica.owns(16).await;
    let a = Worker::<ConfigMap>::of(&world, "a", replica);
    settled().await;
    world.check(&[&a]);
}

#[tokio::test(start_paused = true)]
async fn shards_are_owned_only_when_each_informer_that_has_not_ended_is_filled() {
    let world = World::new(ShardBy::Key, ShardSelectors::Ignored);
    let replica = Replica::start_with(builder_of(world.server.client(), "a").by(world.by));
    let build = || {
        let source = KubeListerWatcher::new::<ConfigMap>(world.server.client(), &(), None);
        SharedInformer::<ConfigMap>::in_shards(&replica.group, source).build().unwrap()
    };
    let [dropped, stopped, run] = [build(), build(), build()];
    let running = run.clone();
    let running = tokio::spawn(async move { running.run().await });
    sleep(30 * SECOND).await;
    drop(dropped);
    sleep(SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "an informer does not run");
    assert_eq!(replica.reported(), [] as [String; 0]);
    sleep(31 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("has not joined group shop/counter for 60s"), "{reported:?}");
    stopped.stop().await;
    replica.owns(16).await;
    assert_eq!(run.store().len(), OBJECTS);
    running.abort();
}

/// The pods are in the namespaces of the config maps.
#[tokio::test(start_paused = true)]
async fn change_of_a_related_object_reconciles_its_owner() {
    let (all, in_shards) = (Related::All, Related::InShards);
    let worlds = [
        (ShardBy::Key, all),
        (ShardBy::Uid, all),
        (ShardBy::Namespace, all),
        (ShardBy::Namespace, in_shards),
    ];
    for (by, related) in worlds {
        let world = World::with(by, ShardSelectors::Honoured, related, None);
        let a = Worker::<ConfigMap>::start(&world, "a");
        let b = Worker::<ConfigMap>::start(&world, "b");
        a.replica.owns(8).await;
        b.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &b]);
        world.done.lock().clear();
        (0..OBJECTS).for_each(|number| world.write_pod(number));
        settled().await;
        world.check(&[&a, &b]);
        assert_eq!(world.done.lock().len(), OBJECTS, "{by:?}");
        let pods = [&a, &b].map(|worker| worker.pods.store().len());
        match related {
            Related::All => assert_eq!(pods, [OBJECTS; 2]),
            Related::InShards => assert_eq!(pods.iter().sum::<usize>(), OBJECTS),
        }

        world.done.lock().clear();
        let pods_of_b = b.pods.store().len();
        b.stop().await;
        a.replica.owns(16).await;
        settled().await;
        world.done.lock().clear();
        assert_eq!(a.pods.store().len(), OBJECTS, "{by:?}: {pods_of_b} have moved");
        (0..OBJECTS).for_each(|number| world.delete_pod(number));
        settled().await;
        world.check(&[&a]);
        assert_eq!(world.done.lock().len(), OBJECTS, "{by:?}");
    }
}

#[cfg(feature = "compact")]
#[tokio::test(start_paused = true)]
async fn compact_objects_move_with_their_shards() {
    use crate::compact::Compact;

    for by in PROPERTIES {
        let world = World::new(by, ShardSelectors::HonouredInLists);
        let a = Worker::<Compact<ConfigMap>>::start(&world, "a");
        a.replica.owns(16).await;
        let b = Worker::<Compact<ConfigMap>>::start(&world, "b");
        b.replica.owns(8).await;
        settled().await;
        world.check(&[&a, &b]);
        (0..OBJECTS).for_each(|number| world.write(number));
        settled().await;
        world.check(&[&a, &b]);
        b.stop().await;
        a.replica.owns(16).await;
        settled().await;
        world.check(&[&a]);
        assert_eq!(*world.deleted.lock(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_change_while_their_shards_move_are_reconciled_in_their_last_state() {
    const PODS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for seed in 0..9 {
        let (by, server) = (PROPERTIES[seed % 3], SERVERS[seed / 3]);
        let seed = seed as u64;
        let world = World::with(by, server, Related::All, Some(seed));
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pods = PODS.into_iter();
        let mut workers = vec![Worker::<ConfigMap>::start(&world, pods.next().unwrap())];
        let (mut leaving, mut deleted) = (Vec::new(), BTreeSet::new());
        for _ in 0..PODS.len() {
            let which = random.usize(..workers.len());
            match random.u8(..5) {
                0 | 1 if workers.len() < 3 => {
                    workers.push(Worker::<ConfigMap>::start(&world, pods.next().unwrap()));
                }
                2 if workers.len() > 1 => {
                    let mut worker = workers.remove(which);
                    worker.replica.stop();
                    leaving.push(worker);
                }
                3 if workers.len() > 1 => drop(workers.remove(which)),
                _ => {}
            }
            for _ in 0..60 {
                let number = random.usize(..OBJECTS);
                if random.u8(..4) == 0 && world.object(number).is_some() {
                    world.delete(number);
                    deleted.insert(key_of(number));
                } else {
                    world.write(number);
                }
                sleep(random.u32(..10) * SECOND / 20).await;
            }
        }
        sleep(60 * SECOND).await;
        world.check(&workers.iter().collect::<Vec<_>>());
        for worker in leaving {
            assert_eq!(worker.stored(), BTreeMap::new(), "a member that has ended holds nothing");
        }
        assert!(world.deleted.lock().iter().all(|(_, key)| deleted.contains(key)), "seed {seed}");
    }
}
