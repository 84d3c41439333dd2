//! Tests of the settings of a group.

use std::future::pending;
use std::time::Duration;

use deltafifo_testkit::Verb;
use kube::Client;
use kube::client::Body;
use tokio::time::sleep;

use super::rig::*;
use crate::leader_election::BuildError::{
    LeaseDuration, NoRetryPeriod, RenewDeadline, RetryPeriod,
};
use crate::sharding::{BuildError, RunError, ShardBy, ShardGroup, ShardGroupBuilder};

fn builder() -> ShardGroupBuilder {
    builder_of(server().client(), "a")
}

fn error(builder: ShardGroupBuilder) -> BuildError {
    builder.build().err().expect("it is not built")
}

#[tokio::test(start_paused = true)]
async fn member_with_other_settings_ends_with_an_error_and_writes_nothing() {
    let server = server();
    let first = Replica::start(&server, "a");
    first.owns(16).await;
    let others = [
        (builder_of(server.client(), "b").shards(32), "deltafifo/shards", "16", "32"),
        (builder_of(server.client(), "b").by(ShardBy::Uid), "deltafifo/by", "key", "uid"),
    ];
    for (other, name, found_there, own_setting) in others {
        server.forget_requests();
        let mut second = Replica::start_with(other);
        let ended = second.ended().await;
        let Err(RunError::Mismatch { annotation, found, own, .. }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!((annotation, &*found, &*own), (name, found_there, own_setting));
        sleep(60 * SECOND).await;
        let by_others = server.requests().into_iter().filter(|request| {
            matches!(request.verb(), Verb::Create | Verb::Update | Verb::Delete)
                && !request.name().is_some_and(|name| name.starts_with("counter-member-a."))
        });
        assert_eq!(by_others.count(), 0);
    }
    assert_eq!(first.group.owned().borrow().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn settings_that_appear_later_end_the_group_with_an_error() {
    let server = server();
    let mut replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let [member] = &members(&server).await[..] else { panic!("one member") };
    let permit = replica.admit(0).unwrap();
    let mut other = lease("counter-member-b.1", &serde_json::json!(null));
    other["metadata"]["annotations"] = serde_json::json!({ "deltafifo/protocol": "2" });
    server.apply(other).unwrap();
    lost(&permit).await;
    drop(permit);
    let ended = replica.ended().await.unwrap_err().to_string();
    assert!(ended.contains("lease shop/counter-member-b.1"), "{ended}");
    let own = server.get(&leases(), "shop", &name_of(member)).unwrap();
    assert_eq!(own["spec"]["holderIdentity"], "", "it is fenced");
}

#[tokio::test(start_paused = true)]
async fn renewals_through_a_client_of_their_own_are_not_delayed_by_writes_of_permits() {
    let server = server();
    // It never answers.
    let blocked = tower::service_fn(|_: http::Request<Body>| {
        pending::<std::io::Result<http::Response<Body>>>()
    });
    let builder = builder_of(Client::new(blocked, "default"), "a").lease_client(server.client());
    let replica = Replica::start_with(builder);
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    let client = permit.client();
    let write = http::Request::post("/").body(Vec::new()).unwrap();
    let write = tokio::spawn(async move { client.request_text(write).await });
    sleep(60 * SECOND).await;
    assert!(permit.is_held() && !write.is_finished());
    assert_eq!(replica.reported(), [] as [String; 0]);
}

#[tokio::test]
async fn names_that_cannot_be_a_part_of_objects_are_refused() {
    let client = server().client();
    let group = |namespace: &str, name: &str, pod: &str| {
        error(ShardGroup::builder(client.clone(), namespace, name).identity(pod))
    };
    let long = "a".repeat(64);
    let names = [
        (group("", "counter", "pod"), "namespace"),
        (group("shop", "", "pod"), "name of the group"),
        (group("shop", "Counter", "pod"), "name of the group"),
        (group("shop", "a.b", "pod"), "name of the group"),
        (group("shop", &long, "pod"), "name of the group"),
        (group("shop", "counter-", "pod"), "name of the group"),
        (group("shop", "counter", ""), "identity"),
        (group("shop", "counter", "a_b"), "identity"),
        (group("shop", "counter", "a..b"), "identity"),
        (group("shop", "counter", &"a".repeat(171)), "identity"),
    ];
    for (error, expected) in names {
        let BuildError::Name { part, .. } = &error else { panic!("{error}") };
        assert_eq!(*part, expected, "{error}");
    }
}

#[tokio::test]
async fn number_of_shards_must_be_a_power_of_two_of_at_most_128() {
    for count in [0, 3, 100, 256] {
        assert_eq!(error(builder().shards(count)), BuildError::Shards(count));
    }
    assert!(builder().shards(128).build().is_ok());
}

#[tokio::test]
async fn durations_that_are_not_safe_are_refused() {
    let (ten, zero) = (10 * SECOND, Duration::ZERO);
    let errors = [
        error(builder().lease_duration(ten)),
        error(builder().retry_period(9 * SECOND)),
        error(builder().retry_period(zero)),
        error(builder().lease_duration(Duration::MAX)),
    ];
    let expected = [
        RenewDeadline { lease_duration: ten, renew_deadline: ten },
        RetryPeriod { renew_deadline: ten, retry_period: 9 * SECOND },
        NoRetryPeriod,
        LeaseDuration(Duration::MAX),
    ];
    assert_eq!(errors, expected.map(BuildError::Durations));
}

#[tokio::test]
async fn process_has_one_group_at_a_time() {
    let client = server().client();
    let build = || ShardGroup::builder(client.clone(), "shop", "counter").identity("a").build();
    let first = build().unwrap();
    assert_eq!(build().err(), Some(BuildError::Exists));
    drop(first);
    assert!(build().is_ok());
}
