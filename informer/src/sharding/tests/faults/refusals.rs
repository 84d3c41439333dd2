//! Tests of missing rights, and of requests that the server refuses.

use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo_testkit::{ApiServer, Fault, Request, Resource, Verb, status};
use kube::core::Status;
use metrics_util::debugging::DebuggingRecorder;
use serde_json::json;
use tokio::time::sleep;

use super::rig::*;

#[tokio::test(start_paused = true)]
async fn missing_rights_are_reported_with_the_verb_to_grant() {
    for (verb, name) in [
        (Verb::List, "list"),
        (Verb::Watch, "watch"),
        (Verb::Create, "create"),
        (Verb::Update, "update"),
        (Verb::Delete, "delete"),
    ] {
        let server = server();
        server.fault(Fault::status(status::forbidden(&leases())).on(verb).times(usize::MAX));
        let mut replica = Replica::start(&server, "a");
        sleep(10 * SECOND).await;
        replica.stop();
        assert_eq!(replica.ended().await, Ok(()));
        let [error] = &replica.reported()[..] else { panic!("{:?}", replica.reported()) };
        assert!(
            error.contains(&format!("cannot {name} leases.coordination.k8s.io shop/")),
            "{error}"
        );
        assert!(error.contains("grant this verb to the account"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn replica_that_lacks_a_right_takes_no_shard() {
    for verb in [Verb::List, Verb::Watch, Verb::Create, Verb::Update] {
        let server = server();
        let owner = Replica::start(&server, "a");
        owner.owns(16).await;
        let permit = owner.admit(0).unwrap();
        let recorder = DebuggingRecorder::new();
        let newcomer = metrics::with_local_recorder(&recorder, || {
            Replica::start_with(builder_of(forbidding(&server, verb), "b"))
        });
        sleep(120 * SECOND).await;
        assert_eq!(gauge(&recorder, "shard_group_members"), Some(0.0), "{verb:?}");
        assert_eq!(owner.owns(16).await.len(), 16);
        assert!(permit.is_held(), "{verb:?}: no shard has moved");
        assert!(newcomer.group.owned().borrow().is_empty(), "{verb:?}");
        assert!(!newcomer.reported().is_empty(), "{verb:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn replica_that_is_never_live_reports_that_each_minute() {
    let server = server();
    let newcomer = || Replica::start_with(builder_of(forbidding(&server, Verb::Update), "b"));
    let assert_reported = async |replica: Replica| {
        sleep(200 * SECOND).await;
        let is_not_live = |error: &String| error.contains("has not become live in group");
        let reported: Vec<_> = replica.reported().into_iter().filter(is_not_live).collect();
        assert!((2..=3).contains(&reported.len()), "{reported:?}");
        assert!(!reported[0].contains("  "), "{reported:?}");
        assert!(replica.group.owned().borrow().is_empty());
    };
    assert_reported(newcomer()).await;
    // The owner of the shards fences each of its members.
    let owner = Replica::start(&server, "a");
    owner.owns(16).await;
    assert_reported(newcomer()).await;
}

#[tokio::test(start_paused = true)]
async fn server_without_leases_is_reported() {
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    let recorder = DebuggingRecorder::new();
    let replica = metrics::with_local_recorder(&recorder, || Replica::start(&server, "a"));
    sleep(60 * SECOND).await;
    let [error] = &replica.reported()[..] else { panic!("{:?}", replica.reported()) };
    assert!(error.contains("the namespace or the API does not exist"), "{error}");
    assert_eq!(gauge(&recorder, "shard_group_members"), Some(0.0));
    server.register(leases());
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn member_whose_deletions_are_refused_sends_few_requests_however_many_leases_are_left() {
    // A webhook may refuse with a conflict.
    for refusal in [status::forbidden(&leases()), status::conflict(&leases(), "simulated")] {
        let refused = || Fault::status(refusal.clone()).on(Verb::Delete).times(usize::MAX);
        let mut sent = Vec::new();
        for left in [1, 100] {
            let server = server();
            apply_former(&server, left);
            server.fault(refused());
            let replica = Replica::start(&server, "a");
            sleep(600 * SECOND).await;
            assert_eq!(replica.owns(16).await.len(), 16);
            sent.push(count(&server, &[Verb::Delete]));
            // When nothing refuses them any more, they are all deleted within the longest pause.
            server.clear_faults();
            sleep(61 * SECOND).await;
            assert_eq!(members(&server).await.len(), 1);
            // After that, the pauses are short again.
            apply_former(&server, left);
            server.fault(refused());
            server.forget_requests();
            sleep(10 * SECOND).await;
            assert_eq!(count(&server, &[Verb::Delete]), 3, "after 0, 2 and 6 s");
        }
        assert!(sent[0] == sent[1] && (10..20).contains(&sent[0]), "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_that_finalizers_keep_cause_few_requests_and_delay_no_other_for_long() {
    let server = server();
    for number in 0..5 {
        let gone = name_of(&format!("gone_{number:08x}"));
        let mut kept = lease(&gone, &json!({ "leaseTransitions": 0 }));
        kept["metadata"]["finalizers"] = json!(["shop.example/keep"]);
        server.apply(kept).unwrap();
    }
    let replica = Replica::start(&server, "a");
    sleep(200 * SECOND).await;
    assert_eq!(replica.owns(16).await.len(), 16);
    server.forget_requests();
    let last = name_of("last_00000000");
    server.apply(lease(&last, &json!({ "leaseTransitions": 0 }))).unwrap();
    // Within the longest pause.
    sleep(61 * SECOND).await;
    assert!(server.get(&leases(), "shop", &last).is_none());
    sleep(540 * SECOND).await;
    let sent = count(&server, &[Verb::Delete]);
    assert!((10..20).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn creation_that_is_refused_although_the_lease_does_not_exist_is_reported_and_repeated() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let shard = "counter-shard-003";
    server.fault(Fault::status(status::conflict(&leases(), shard)).on(Verb::Create));
    server.delete(&leases(), "shop", shard).unwrap();
    sleep(10 * SECOND).await;
    let [error] = &replica.reported()[..] else { panic!("{:?}", replica.reported()) };
    assert!(error.contains("cannot create leases.coordination.k8s.io shop/"), "{error}");
    replica.owns(16).await;
}

/// A creation that is refused with 409 is followed by a list of the Lease.
#[tokio::test(start_paused = true)]
async fn errors_of_lists_between_lists_that_succeed_are_reported_each_minute() {
    let server = server();
    let exists = Status::failure("the Lease exists", "AlreadyExists").with_code(409);
    server.fault(Fault::status(exists).on(Verb::Create).times(usize::MAX));
    let lists = AtomicUsize::new(0);
    let is_every_second = move |request: &Request| {
        let is_of_one = request.parameter("fieldSelector").is_some();
        is_of_one && lists.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    };
    let failing = Fault::status(status::internal_error("etcd has no leader"));
    server.fault(failing.on(Verb::List).when(is_every_second).times(usize::MAX));
    let replica = Replica::start_with(builder_of(server.client(), "a"));
    sleep(100 * SECOND).await;
    let reported = replica.reported();
    let lists = reported.iter().filter(|error| error.contains("cannot list"));
    assert_eq!(lists.count(), 2, "{reported:?}");
}
