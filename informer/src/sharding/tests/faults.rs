//! Tests of servers that fail or refuse requests, and of Leases with unexpected contents.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo_testkit::{After, ApiServer, Fault, Request, Resource, Verb, status};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use kube::core::Status;
use metrics_util::debugging::DebuggingRecorder;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::messages::Messages;
use super::rig::*;

const LOST: &str = "shard_group_lost_memberships_total";

#[tokio::test(start_paused = true)]
async fn outage_that_is_shorter_than_the_renew_deadline_changes_nothing() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    server.fault(Fault::refused().times(usize::MAX));
    server.break_watches();
    sleep(Duration::from_millis(4_500)).await;
    server.clear_faults();
    sleep(60 * SECOND).await;
    assert!(permit.is_held());
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "a watch and a list: {reported:?}");
}

#[tokio::test(start_paused = true)]
async fn member_without_answers_loses_its_work_at_its_renew_deadline_and_joins_again() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    let former = members(&server).await;
    let began = Instant::now();
    server.fault(Fault::silence().times(usize::MAX));
    lost(&permit).await;
    assert_eq!(began.elapsed(), 10 * SECOND);
    replica.owns(0).await;
    assert!(replica.group.check(Duration::ZERO).is_ok());
    sleep(6 * SECOND).await;
    let unhealthy = replica.group.check(SECOND).unwrap_err().to_string();
    assert!(unhealthy.contains("shop/counter expired 1s ago"), "{unhealthy}");
    drop(permit);
    sleep(SECOND).await;
    assert!(replica.group.check(Duration::ZERO).is_ok());
    server.clear_faults();
    replica.owns(16).await;
    assert_ne!(members(&server).await, former);
}

#[tokio::test(start_paused = true)]
async fn check_finds_work_that_outlives_a_dropped_run() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    let group = replica.group.clone();
    replica.kill().await;
    sleep(14 * SECOND).await;
    assert!(group.check(Duration::ZERO).is_ok());
    sleep(2 * SECOND).await;
    let unhealthy = group.check(Duration::ZERO).unwrap_err().to_string();
    assert!(unhealthy.contains("shop/counter expired"), "{unhealthy}");
    drop(permit);
    assert!(group.check(Duration::ZERO).is_ok());
    assert_eq!(gauge(&recorder, "shard_group_draining_shards"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn check_fails_if_the_run_of_an_owner_is_not_polled() {
    let group = builder_of(server().client(), "a").build().unwrap();
    let mut run = std::pin::pin!(group.run_until(std::future::pending()));
    let mut owned = group.owned();
    tokio::select! {
        ended = &mut run => panic!("{ended:?}"),
        owned = owned.wait_for(|owned| owned.len() == 16) => assert!(owned.is_ok()),
    }
    sleep(14 * SECOND).await;
    assert!(group.check(Duration::ZERO).is_ok());
    sleep(2 * SECOND).await;
    assert!(group.check(Duration::ZERO).is_err());
    tokio::select! {
        ended = run => panic!("{ended:?}"),
        () = sleep(SECOND) => assert!(group.check(Duration::ZERO).is_ok()),
    }
}

#[tokio::test(start_paused = true)]
async fn watch_that_falls_silent_is_replaced_before_the_renew_deadline() {
    let server = server();
    server.fault(Fault::hang(After::Bytes(0)).on(Verb::Watch));
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    server.fault(Fault::hang(After::Bytes(20_000)).on(Verb::Watch));
    server.break_watches();
    let permit = replica.admit(0).unwrap();
    sleep(600 * SECOND).await;
    assert!(permit.is_held());
}

#[tokio::test(start_paused = true)]
async fn watch_that_the_server_ends_is_continued_without_a_list() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    server.forget_requests();
    for _ in 0..3 {
        server.end_watches();
        sleep(5 * SECOND).await;
    }
    assert_eq!(count(&server, &[Verb::Watch]), 3);
    assert_eq!(count(&server, &[Verb::List]), 0);
    server.compact();
    server.error_watches(status::expired("too old"));
    sleep(5 * SECOND).await;
    assert_eq!(count(&server, &[Verb::List]), 1);
    assert_eq!(replica.reported(), [] as [String; 0]);
    assert_eq!(replica.group.owned().borrow().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn server_that_fails_is_asked_less_and_less_often() {
    let server = server();
    server.fault(Fault::refused().times(usize::MAX));
    let replica = Replica::start(&server, "a");
    sleep(16 * SECOND).await;
    let first = count(&server, &[Verb::List]);
    assert!((5..=9).contains(&first), "{first}");
    sleep(600 * SECOND).await;
    server.forget_requests();
    sleep(150 * SECOND).await;
    let later = count(&server, &[Verb::List]);
    assert!((9..=10).contains(&later), "{later}");
    server.clear_faults();
    replica.owns(16).await;
    assert_eq!(replica.reported().len(), 1, "{:?}", replica.reported());
}

#[tokio::test(start_paused = true)]
async fn stop_without_a_server_ends_after_the_deadline_and_counts_as_a_loss() {
    let recorder = DebuggingRecorder::new();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let messages = Messages::default();
    let _messages = set_default(tracing_subscriber::registry().with(messages.clone()));
    let server = server();
    let mut replica = Replica::start(&server, "a");
    replica.owns(16).await;
    server.fault(Fault::silence().times(usize::MAX));
    let began = Instant::now();
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    assert!(began.elapsed() <= 12 * SECOND, "{:?}", began.elapsed());
    assert_eq!(counter(&recorder, LOST), Some(1));
    let logged = messages.0.lock();
    let expected = "this member has lost its lease and its shards; other members take";
    let warnings = logged.iter().filter(|message| message.starts_with(expected));
    assert_eq!(warnings.count(), 1, "{:?}", *logged);
}

#[tokio::test(start_paused = true)]
async fn member_whose_lease_is_deleted_before_or_while_it_stops_counts_as_lost() {
    for stops_first in [false, true] {
        let recorder = DebuggingRecorder::new();
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let server = server();
        let mut replica = Replica::start(&server, "a");
        replica.owns(16).await;
        let permit = replica.admit(0).unwrap();
        let member = members(&server).await.remove(0);
        if stops_first {
            replica.stop();
            replica.owns(0).await;
        }
        server.delete(&leases(), "shop", &name_of(&member)).unwrap();
        lost(&permit).await;
        if !stops_first {
            replica.stop();
        }
        drop(permit);
        assert_eq!(replica.ended().await, Ok(()));
        assert_eq!(counter(&recorder, LOST), Some(1), "stops first: {stops_first}");
    }
}

#[tokio::test(start_paused = true)]
async fn member_that_has_released_its_shards_is_not_lost_although_its_last_request_fails() {
    for fails in [false, true] {
        let recorder = DebuggingRecorder::new();
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let server = server();
        let mut replica = Replica::start(&server, "a");
        replica.owns(16).await;
        if fails {
            server.fault(Fault::silence().on(Verb::Delete).times(usize::MAX));
        }
        replica.stop();
        assert_eq!(replica.ended().await, Ok(()));
        assert_eq!(counter(&recorder, LOST), Some(0), "fails: {fails}");
    }
}

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

/// Puts Leases of former members into the server.
fn apply_former(server: &ApiServer, count: usize) {
    for number in 0..count {
        let gone = name_of(&format!("gone_{number:08x}"));
        server.apply(lease(&gone, &json!({ "leaseTransitions": 0 }))).unwrap();
    }
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

/// Returns a client whose requests with this verb are forbidden.
fn forbidding(server: &ApiServer, forbidden: Verb) -> Client {
    let client = server.client();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let verb = match *request.method() {
            http::Method::GET if is_watch => Verb::Watch,
            http::Method::GET => Verb::List,
            http::Method::POST => Verb::Create,
            http::Method::PUT => Verb::Update,
            _ => Verb::Delete,
        };
        let client = client.clone();
        async move {
            if verb != forbidden {
                return client.send(request).await;
            }
            let status = json!({ "kind": "Status", "reason": "Forbidden", "code": 403 });
            let answer = http::Response::builder().status(403);
            Ok(answer.body(Body::from(status.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
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
async fn versions_that_are_no_numbers_are_reported_each_minute() {
    let versions = std::sync::atomic::AtomicUsize::new(0);
    let versions = std::sync::Arc::new(versions);
    let requests = versions.clone();
    let lists = tower::service_fn(move |_: http::Request<Body>| {
        let version = requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let list = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "items": [],
            "metadata": { "resourceVersion": format!("v{version}") },
        });
        let list = Body::from(list.to_string().into_bytes());
        std::future::ready(Ok::<_, std::io::Error>(http::Response::new(list)))
    });
    let replica = Replica::start_with(builder_of(Client::new(lists, "default"), "a"));
    sleep(100 * SECOND).await;
    assert!(versions.load(std::sync::atomic::Ordering::Relaxed) > 5);
    let [error, _] = &replica.reported()[..] else { panic!("{:?}", replica.reported()) };
    assert!(error.contains(r#"the resource version "v0" of lease shop/*"#), "{error}");
}

/// Puts a Lease without the label of the group into the server.
fn apply_foreign(server: &ApiServer, name: &str) {
    let mut foreign = lease(name, &json!({ "holderIdentity": "an elector" }));
    foreign["metadata"]["labels"] = json!({});
    server.apply(foreign).unwrap();
}

#[tokio::test(start_paused = true)]
async fn lease_of_the_same_name_without_the_label_is_reported_each_minute_until_it_is_deleted() {
    let server = server();
    apply_foreign(&server, "counter");
    let replica = Replica::start(&server, "a");
    sleep(100 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for error in &reported {
        let expected = "lease shop/counter exists without the label deltafifo/group=counter";
        assert!(error.contains(expected), "{error}");
    }
    assert!(replica.group.owned().borrow().is_empty());
    server.delete(&leases(), "shop", "counter").unwrap();
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn one_of_the_leases_of_shards_without_the_label_is_reported_each_minute() {
    let server = server();
    let names = ["counter-shard-003", "counter-shard-007"];
    for name in names {
        apply_foreign(&server, name);
    }
    let replica = Replica::start(&server, "a");
    replica.owns(14).await;
    sleep(130 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 3, "{reported:?}");
    for error in &reported {
        assert!(error.contains("lease shop/counter-shard-00"), "{error}");
    }
    for name in names {
        server.delete(&leases(), "shop", name).unwrap();
    }
    replica.owns(16).await;
}

/// The writes in which a webhook removes metadata.
type Strips = &'static [http::Method];

const ALL_WRITES: Strips = &[http::Method::POST, http::Method::PUT];
const UPDATES: Strips = &[http::Method::PUT];

/// Returns a client of the server through a webhook that removes the labels or the annotations from
/// the Leases of members, in the writes that the value of the sender has: at first all.
fn stripping(server: &ApiServer, field: &'static str) -> (Client, watch::Sender<Strips>) {
    let client = server.client();
    let (strips, are_stripped) = watch::channel(ALL_WRITES);
    let webhook = tower::service_fn(move |request: http::Request<Body>| {
        let strips = are_stripped.borrow().contains(request.method());
        let client = client.clone();
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let mut lease: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let name = lease["metadata"]["name"].as_str().unwrap_or_default();
            let bytes = if strips && name.starts_with("counter-member-") {
                lease["metadata"][field] = json!({});
                lease.to_string().into_bytes()
            } else {
                bytes.to_vec()
            };
            client.send(http::Request::from_parts(parts, Body::from(bytes))).await
        }
    });
    (Client::new(webhook, "default"), strips)
}

#[tokio::test(start_paused = true)]
async fn label_that_the_server_removes_from_the_leases_of_members_is_reported_each_minute() {
    let server = server();
    let (client, _strips) = stripping(&server, "labels");
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(100 * SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "no member is seen");
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for error in &reported {
        assert!(error.contains("has stored lease shop/counter-member-a."), "{error}");
        assert!(error.contains("without the label deltafifo/group=counter"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn annotation_that_the_server_removes_from_the_leases_of_members_is_reported_each_minute() {
    let server = server();
    let (client, strips) = stripping(&server, "annotations");
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(200 * SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "no member is ready");
    let reported = replica.reported();
    assert_eq!(reported.len(), 4, "{reported:?}");
    for error in &reported {
        assert!(error.contains("lease shop/counter-member-a."), "{error}");
        assert!(error.contains("does not have the annotation deltafifo/readiness="), "{error}");
    }
    strips.send_replace(&[]);
    replica.owns(16).await;
    // Now that the member owns shards, it keeps them.
    strips.send_replace(ALL_WRITES);
    let permit = replica.admit(0).unwrap();
    sleep(200 * SECOND).await;
    assert!(permit.is_held());
    assert!(replica.reported().len() >= 6, "{:?}", replica.reported());
}

/// Returns a client of the server beside another client, which removes the annotations from each
/// Lease of a member that the first one has updated.
fn undone(server: &ApiServer) -> Client {
    let client = server.client();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            let is_update = request.method() == http::Method::PUT;
            let uri = request.uri().clone();
            let response = client.send(request).await?;
            if is_update && uri.path().contains("/counter-member-") && response.status() == 200 {
                let patch = json!({ "metadata": { "annotations": null } }).to_string();
                let patched = http::Request::patch(uri)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(patch.into_bytes()))
                    .unwrap();
                assert_eq!(client.send(patched).await?.status(), 200);
            }
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn annotation_that_another_client_removes_after_each_update_is_reported_each_minute() {
    let server = server();
    let replica = Replica::start_with(builder_of(undone(&server), "a"));
    sleep(200 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 4, "{reported:?}");
    for error in &reported {
        assert!(error.contains("lease shop/counter-member-a."), "{error}");
        assert!(error.contains("does not have the annotation deltafifo/readiness="), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn annotation_that_is_removed_once_is_reported_once() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    sleep(60 * SECOND).await;
    let [member] = &*members(&server).await else { panic!("there is one member") };
    let api: Api<Lease> = Api::namespaced(server.client(), "shop");
    let patch = Patch::Merge(json!({ "metadata": { "annotations": null } }));
    api.patch(&name_of(member), &PatchParams::default(), &patch).await.unwrap();
    sleep(200 * SECOND).await;
    assert_eq!(replica.group.owned().borrow().len(), 16);
    let reported = replica.reported();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("the annotation deltafifo/readiness=settled"), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn fencing_by_another_member_is_not_reported_as_a_change_of_the_annotation() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let former = members(&server).await;
    let api: Api<Lease> = Api::namespaced(server.client(), "shop");
    let patch = Patch::Merge(json!({
        "metadata": { "annotations": { "deltafifo/readiness": "unready" } },
        "spec": { "holderIdentity": "" },
    }));
    api.patch(&name_of(&former[0]), &PatchParams::default(), &patch).await.unwrap();
    replica.owns(0).await;
    replica.owns(16).await;
    assert_ne!(members(&server).await, former);
    assert_eq!(replica.reported(), [""; 0]);
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

#[tokio::test(start_paused = true)]
async fn label_that_the_server_removes_is_named_although_no_lease_may_be_deleted() {
    let server = server();
    let (client, _strips) = stripping(&server, "labels");
    server.fault(Fault::status(status::forbidden(&leases())).on(Verb::Delete).times(usize::MAX));
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(100 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for error in &reported {
        assert!(error.contains("without the label deltafifo/group=counter"), "{error}");
        assert!(error.contains("cannot delete leases.coordination.k8s.io shop/"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_members_without_the_label_do_not_accumulate() {
    let server = server();
    let (client, strips) = stripping(&server, "labels");
    // The first deletion is refused.
    server.fault(Fault::status(status::forbidden(&leases())).on(Verb::Delete));
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(100 * SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "no member is seen");
    assert!(members(&server).await.len() <= 1, "{:?}", members(&server).await);
    strips.send_replace(&[]);
    replica.owns(16).await;
    assert_eq!(members(&server).await.len(), 1);
    // The next renewal loses the label.
    strips.send_replace(ALL_WRITES);
    replica.owns(0).await;
    sleep(600 * SECOND).await;
    assert!(members(&server).await.len() <= 1, "{:?}", members(&server).await);
}

/// Returns the number of creations in this time.
async fn creations_in(server: &ApiServer, time: Duration) -> usize {
    server.forget_requests();
    sleep(time).await;
    count(server, &[Verb::Create])
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_member_that_loses_its_label_is_created_less_and_less_often() {
    let server = server();
    let (client, strips) = stripping(&server, "labels");
    let replica = Replica::start_with(builder_of(client, "a"));
    let first = creations_in(&server, 10 * SECOND).await;
    assert_eq!(first, 3, "after 0, 2 and 6 s");
    let later = creations_in(&server, 100 * SECOND).await;
    assert_eq!(later, 3, "after 14, 30 and 62 s");
    let at_last = creations_in(&server, HOUR).await;
    assert!((59..=60).contains(&at_last), "one each minute: {at_last}");
    strips.send_replace(&[]);
    let began = Instant::now();
    replica.owns(16).await;
    assert!(began.elapsed() <= 61 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn member_whose_renewals_lose_the_label_joins_less_and_less_often() {
    let server = server();
    let (client, strips) = stripping(&server, "labels");
    strips.send_replace(UPDATES);
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(300 * SECOND).await;
    let later = creations_in(&server, HOUR).await;
    assert!((58..=60).contains(&later), "one each minute: {later}");
    assert!(members(&server).await.len() <= 1, "{:?}", members(&server).await);
    assert!(replica.group.owned().borrow().is_empty(), "no member is live");
    let error = replica.reported().remove(0);
    assert!(error.contains("without the label deltafifo/group=counter"), "{error}");
    strips.send_replace(&[]);
    let began = Instant::now();
    replica.owns(16).await;
    assert!(began.elapsed() <= 80 * SECOND, "{:?}", began.elapsed());
    // The pause of a member that was live is short again.
    let member = members(&server).await.remove(0);
    server.delete(&leases(), "shop", &name_of(&member)).unwrap();
    replica.owns(0).await;
    let began = Instant::now();
    replica.owns(16).await;
    assert!(began.elapsed() <= 20 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pause_of_a_member_whose_lease_loses_its_label_does_not_delay_its_stop() {
    let server = server();
    let (client, _strips) = stripping(&server, "labels");
    let mut replica = Replica::start_with(builder_of(client, "a"));
    sleep(200 * SECOND).await;
    let began = Instant::now();
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pause_before_the_creation_of_a_foreign_lease_grows_anew_once_the_lease_has_a_label() {
    let (server, shard) = (server(), "counter-shard-003");
    apply_foreign(&server, shard);
    let replica = Replica::start(&server, "a");
    replica.owns(15).await;
    sleep(200 * SECOND).await;
    let later = creations_in(&server, 600 * SECOND).await;
    assert!((9..=10).contains(&later), "one each minute: {later}");
    server.delete(&leases(), "shop", shard).unwrap();
    replica.owns(16).await;
    server.delete(&leases(), "shop", shard).unwrap();
    apply_foreign(&server, shard);
    let first = creations_in(&server, 10 * SECOND).await;
    assert_eq!(first, 3, "after 0, 2 and 6 s");
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

#[tokio::test(start_paused = true)]
async fn shard_with_an_unknown_holder_is_taken_after_the_lease_duration() {
    let server = server();
    let garbage = json!({
        "holderIdentity": "no member, ever", "leaseTransitions": 7, "leaseDurationSeconds": 20,
    });
    server.apply(lease("counter-shard-003", &garbage)).unwrap();
    let replica = Replica::start(&server, "a");
    let began = Instant::now();
    replica.owns(15).await;
    assert!(began.elapsed() < SECOND);
    assert!(replica.admit(3).is_none());
    replica.owns(16).await;
    assert!(began.elapsed() >= 20 * SECOND, "{:?}", began.elapsed());
    assert_eq!(replica.admit(3).unwrap().transitions(), 8);
}

#[tokio::test(start_paused = true)]
async fn objects_with_the_label_and_unknown_names_are_ignored_and_one_is_reported_each_minute() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    for number in 0..100 {
        server.apply(lease(&format!("counter-shard-099-{number}"), &json!(null))).unwrap();
        sleep(SECOND).await;
    }
    let reported = replica.reported();
    let unknown: Vec<_> = reported.iter().filter(|error| error.contains("shard-099")).collect();
    assert_eq!(unknown.len(), 2, "{reported:?}");
    sleep(61 * SECOND).await;
    server.delete(&leases(), "shop", "counter-shard-099-7").unwrap();
    sleep(SECOND).await;
    assert_eq!(replica.reported(), reported, "a deletion is no reason for a report");
    assert_eq!(replica.owns(16).await.len(), 16);
}
