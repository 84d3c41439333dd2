//! Tests of members that join, stop and fail.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_testkit::{ApiServer, Verb};
use metrics_util::debugging::DebuggingRecorder;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::messages::Messages;
use super::rig::*;
use crate::lease::set_wall_clock;
use crate::sharding::participants::Participant;
use crate::sharding::{Permit, RunError};

#[tokio::test(start_paused = true)]
async fn single_member_fills_and_enqueues_all_shards_and_deletes_its_lease_when_stopped() {
    let server = server();
    let began = Instant::now();
    let mut replica = Replica::start(&server, "a");
    let owned = replica.owns(16).await;
    assert!(began.elapsed() < SECOND, "shards without a holder are free: {:?}", began.elapsed());
    assert_eq!(owned.iter().collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
    let mut enqueued = replica.fake.enqueued.lock().clone();
    enqueued.sort_unstable();
    assert_eq!(enqueued, (0..16).collect::<Vec<_>>());
    let filled = replica.fake.filled.lock().clone();
    assert!(filled.len() <= 2, "one list serves all claims before it: {filled:?}");
    let [member] = &members(&server).await[..] else { panic!("one member") };
    assert!((0..16).all(|shard| holder(&server, shard) == *member));
    let permit = replica.admit(3).unwrap();
    assert_eq!((permit.shard(), permit.transitions(), permit.member()), (3, 1, &**member));
    drop(permit);
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    assert_eq!(members(&server).await, [] as [String; 0]);
    assert!((0..16).all(|shard| holder(&server, shard).is_empty()));
    assert!(replica.admit(3).is_none());
    assert!(replica.group.owned().borrow().is_empty());
    assert_eq!(replica.reported(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn group_without_leases_creates_them_and_logs_that_it_waits_for_the_lease_duration() {
    let server = ApiServer::builder().resource(leases()).build();
    let messages = Messages::default();
    let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
    let began = Instant::now();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let took = began.elapsed();
    assert!(took >= 15 * SECOND && took < 20 * SECOND, "{took:?}");
    let logged = messages.0.lock();
    let waits = logged.iter().filter(|message| {
        message.starts_with("shards have no lease") && message.contains("before `wait` has passed")
    });
    assert_eq!(waits.count(), 1, "{:?}", *logged);
    drop(logged);
    let group = server.get(&leases(), "shop", "counter").unwrap();
    let annotations = &group["metadata"]["annotations"];
    assert_eq!(annotations["deltafifo/shards"], "16");
    assert_eq!(annotations["deltafifo/by"], "key");
    assert_eq!(annotations["deltafifo/protocol"], "1");
}

#[tokio::test(start_paused = true)]
async fn claims_and_releases_keep_what_others_have_written_into_the_lease() {
    let server = server();
    let mut of_another = lease(&shard_lease(3), &json!(null));
    of_another["metadata"]["labels"]["team"] = json!("orders");
    of_another["metadata"]["annotations"] = json!({ "note": "keep" });
    server.apply(of_another).unwrap();
    let is_kept = || {
        let lease = server.get(&leases(), "shop", &shard_lease(3)).unwrap();
        let metadata = &lease["metadata"];
        metadata["labels"]["team"] == "orders" && metadata["annotations"]["note"] == "keep"
    };
    for _ in 0..2 {
        let mut replica = Replica::start(&server, "a");
        replica.owns(16).await;
        assert!(!holder(&server, 3).is_empty() && is_kept(), "after a claim");
        replica.stop();
        assert_eq!(replica.ended().await, Ok(()));
        assert!(holder(&server, 3).is_empty() && is_kept(), "after a release");
    }
}

#[tokio::test(start_paused = true)]
async fn second_member_takes_half_of_the_shards_when_it_is_settled() {
    let server = server();
    let first = Replica::start(&server, "a");
    first.owns(16).await;
    let began = Instant::now();
    let second = Replica::start(&server, "b");
    let taken = second.owns(8).await;
    let took = began.elapsed();
    assert!(took >= 5 * SECOND && took < 7 * SECOND, "{took:?}");
    let kept = first.owns(8).await;
    assert!((0..16).all(|shard| kept.contains(shard) != taken.contains(shard)));
    for shard in 0..16 {
        assert_eq!(first.admit(shard).is_some(), kept.contains(shard));
        assert_eq!(second.admit(shard).is_some(), taken.contains(shard));
    }
}

/// Starts two replicas. Returns them when the first is about to release the shards of the second,
/// with permits of the first for these shards.
async fn with_work_on_moving_shards(server: &ApiServer) -> (Replica, Replica, Vec<Permit>) {
    let first = Replica::start(server, "a");
    first.owns(16).await;
    let mut permits: Vec<_> = (0..16).map(|shard| first.admit(shard).unwrap()).collect();
    let second = Replica::start(server, "b");
    first.owns(8).await;
    permits.retain(|permit| first.admit(permit.shard()).is_none());
    (first, second, permits)
}

#[tokio::test(start_paused = true)]
async fn shards_that_their_owners_release_one_after_another_share_one_list() {
    let (_first, second, permits) = with_work_on_moving_shards(&server()).await;
    // The work on the shards ends 8 ms after each other.
    for permit in permits {
        drop(permit);
        sleep(Duration::from_millis(8)).await;
    }
    let taken = second.owns(8).await;
    assert_eq!(*second.fake.filled.lock(), [taken]);
}

#[tokio::test(start_paused = true)]
async fn shard_whose_work_takes_long_does_not_delay_the_others() {
    let (_first, second, mut permits) = with_work_on_moving_shards(&server()).await;
    let (began, last) = (Instant::now(), permits.pop().unwrap());
    drop(permits);
    second.owns(7).await;
    assert!(began.elapsed() <= SECOND / 10, "{:?}", began.elapsed());
    sleep(5 * SECOND).await;
    let began = Instant::now();
    drop(last);
    second.owns(8).await;
    assert!(began.elapsed() < SECOND / 10, "nothing else is expected: {:?}", began.elapsed());
}

/// The last fill, whose duration bounds the wait for further shards, took long.
#[tokio::test(start_paused = true)]
async fn fill_waits_only_while_further_shards_are_expected() {
    let server = server();
    let mut first = Replica::start(&server, "a");
    first.owns(16).await;
    let heirs = ["b", "c"].map(|pod| Replica::start(&server, pod));
    for heir in &heirs {
        heir.fake.fills.send_replace(false);
    }
    for (heir, shards) in heirs.iter().zip([5, 5]) {
        while heir.fake.filled.lock().is_empty() {
            sleep(SECOND / 100).await;
        }
        sleep(3 * SECOND / 2).await;
        heir.fake.fills.send_replace(true);
        heir.owns(shards).await;
    }
    first.owns(6).await;
    let began = Instant::now();
    first.stop();
    for heir in &heirs {
        heir.owns(8).await;
    }
    assert!(began.elapsed() < SECOND / 10, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn stopped_member_hands_over_each_shard_when_its_work_has_ended() {
    let server = server();
    let mut first = Replica::start(&server, "a");
    first.owns(16).await;
    let second = Replica::start(&server, "b");
    second.owns(8).await;
    let busy = first.owns(8).await.iter().next().unwrap();
    let permit = first.admit(busy).unwrap();
    let began = Instant::now();
    first.stop();
    second.owns(15).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert!(permit.is_held() && first.admit(busy).is_none());
    assert!(second.admit(busy).is_none());
    drop(permit);
    second.owns(16).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert_eq!(first.ended().await, Ok(()));
    assert_eq!(members(&server).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_continues_after_the_drain_timeout_is_lost_but_keeps_its_shard() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = server();
    let mut first = Replica::start(&server, "a");
    first.owns(16).await;
    let second = Replica::start(&server, "b");
    second.owns(8).await;
    let busy = first.owns(8).await.iter().next().unwrap();
    let permit = first.admit(busy).unwrap();
    let began = Instant::now();
    first.stop();
    lost(&permit).await;
    assert_eq!(began.elapsed(), 10 * SECOND);
    assert_eq!(first.reported(), [] as [String; 0]);
    // A blocked thread cannot be dropped. The member renews its Lease for it, and reports it.
    sleep(150 * SECOND).await;
    assert_eq!(second.group.owned().borrow().len(), 15);
    let reported = first.reported();
    assert_eq!(reported.len(), 2, "one report each minute: {reported:?}");
    let blocked = format!("work on the shards {{{busy}}} of group shop/counter has not ended");
    assert!(reported.iter().all(|error| error.contains(&blocked)), "{reported:?}");
    assert_eq!(gauge(&recorder, "shard_group_draining_shards"), Some(1.0));
    drop(permit);
    second.owns(16).await;
    assert_eq!(first.ended().await, Ok(()));
    assert_eq!(first.reported().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn shards_of_a_killed_member_are_taken_after_the_lease_duration() {
    let server = server();
    let first = Replica::start(&server, "a");
    first.owns(16).await;
    let second = Replica::start(&server, "b");
    second.owns(8).await;
    let busy = first.owns(8).await.iter().next().unwrap();
    let (permit, _group) = (first.admit(busy).unwrap(), first.group.clone());
    first.kill().await;
    assert!(!permit.is_held(), "the run was dropped");
    let began = Instant::now();
    second.owns(16).await;
    let took = began.elapsed();
    // The last renewal was up to 5 s before. The only heir comes first, so it fences at once.
    assert!(took > 9 * SECOND && took <= 16 * SECOND, "{took:?}");
    sleep(SECOND).await;
    assert_eq!(members(&server).await.len(), 1, "the Lease of the killed member is deleted");
}

#[tokio::test(start_paused = true)]
async fn member_whose_lease_is_deleted_loses_its_work_and_joins_again_as_another() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    let [former] = &members(&server).await[..] else { panic!("one member") };
    server.delete(&leases(), "shop", &name_of(former)).unwrap();
    lost(&permit).await;
    replica.owns(0).await;
    sleep(60 * SECOND).await;
    assert_eq!(members(&server).await, [] as [String; 0], "its work has not ended");
    drop(permit);
    replica.owns(16).await;
    let [member] = &members(&server).await[..] else { panic!("one member") };
    assert!(member.starts_with("a_") && member != former);
    assert_eq!(replica.admit(0).unwrap().member(), member);
}

#[tokio::test(start_paused = true)]
async fn step_of_the_wall_clock_beyond_the_deadline_ends_the_membership_within_a_retry_period() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    let began = Instant::now();
    set_wall_clock(0, 3600 * SECOND);
    replica.owns(0).await;
    assert!(!permit.is_held());
    assert!(began.elapsed() <= 2 * SECOND, "{:?}", began.elapsed());
    drop(permit);
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn work_continues_after_the_wall_clock_has_passed_the_deadline_for_a_moment() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    set_wall_clock(0, 3600 * SECOND);
    assert!(replica.admit(0).is_none());
    set_wall_clock(0, Duration::ZERO);
    let admitted = async {
        while replica.admit(0).is_none() {
            sleep(SECOND).await;
        }
    };
    timeout(60 * SECOND, admitted).await.expect("the member joins again");
}

#[tokio::test(start_paused = true)]
async fn idle_members_only_renew_their_leases() {
    let server = server();
    let replicas = ["a", "b"].map(|pod| Replica::start(&server, pod));
    for replica in &replicas {
        replica.owns(8).await;
    }
    server.forget_requests();
    sleep(60 * SECOND).await;
    let renewals = count(&server, &[Verb::Update]);
    assert!((22..=24).contains(&renewals), "{renewals}");
    assert_eq!(server.requests().len(), renewals, "{:?}", server.requests());
}

#[tokio::test(start_paused = true)]
async fn participant_that_does_not_fill_its_shards_is_reported_each_minute() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.fake.fills.send_replace(false);
    for reports in 1..=2 {
        sleep(61 * SECOND).await;
        let reported = replica.reported();
        assert_eq!(reported.len(), reports, "{reported:?}");
        let names_both =
            |error: &String| error.contains("group shop/counter") && error.contains("for fake to");
        assert!(reported.iter().all(names_both), "{reported:?}");
    }
    assert!(replica.group.owned().borrow().is_empty());
    replica.fake.fills.send_replace(true);
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn participant_that_joins_during_a_fill_is_filled_before_the_shards_are_owned() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.fake.fills.send_replace(false);
    let late = Fake::new();
    sleep(SECOND).await;
    late.fills.send_replace(false);
    let _late = replica.group.join(Arc::clone(&late) as Arc<dyn Participant>);
    replica.fake.fills.send_replace(true);
    sleep(SECOND).await;
    assert!(replica.group.owned().borrow().is_empty());
    assert_eq!(late.filled.lock()[0], replica.fake.filled.lock()[0]);
    late.fills.send_replace(true);
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn participant_that_leaves_during_a_fill_does_not_delay_it() {
    let server = server();
    let mut replica = Replica::start(&server, "a");
    replica.fake.fills.send_replace(false);
    sleep(SECOND).await;
    assert!(replica.group.owned().borrow().is_empty());
    replica.participation = None;
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn group_that_runs_again_waits_for_the_work_of_a_run_that_was_dropped() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let draining = || gauge(&recorder, "shard_group_draining_shards");
    let server = server();
    let first = Replica::start(&server, "a");
    first.owns(16).await;
    let (permit, group) = (first.admit(0).unwrap(), first.group.clone());
    let errors = Arc::clone(&first.errors);
    first.kill().await;
    let again = tokio::spawn(group.run_until(pending()));
    sleep(150 * SECOND).await;
    assert!(group.owned().borrow().is_empty(), "work of the first run is in progress");
    let reported = errors.lock().clone();
    assert_eq!(reported.len(), 2, "one report each minute: {reported:?}");
    let blocked = "work on the shards {0} of group shop/counter has not ended";
    assert!(reported.iter().all(|error| error.contains(blocked)), "{reported:?}");
    assert_eq!(draining(), Some(1.0));
    drop(permit);
    let mut owned = group.owned();
    timeout(HOUR, owned.wait_for(|owned| owned.len() == 16)).await.unwrap().unwrap();
    assert_eq!(draining(), Some(0.0));
    again.abort();
}

#[tokio::test(start_paused = true)]
async fn group_runs_once_at_a_time() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let again = timeout(HOUR, replica.group.run_until(pending())).await;
    assert_eq!(again, Ok(Err(RunError::Running)));
    assert_eq!(replica.group.owned().borrow().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn member_of_a_group_that_is_too_large_logs_one_warning() {
    for (others, expected) in [(49, 0), (50, 1)] {
        let server = server();
        for other in 0..others {
            let name = name_of(&format!("other_{other:08x}"));
            let spec = json!({ "holderIdentity": format!("other_{other:08x}") });
            let mut member = lease(&name, &spec);
            member["metadata"]["annotations"] = json!({ "deltafifo/readiness": "ready" });
            server.apply(member).unwrap();
        }
        let messages = Messages::default();
        let _guard = set_default(tracing_subscriber::registry().with(messages.clone()));
        let _replica = Replica::start(&server, "a");
        // The others are not fenced before the lease duration has passed.
        sleep(10 * SECOND).await;
        let logged = messages.0.lock();
        let warnings = logged.iter().filter(|message| message.contains("more than 50 members"));
        assert_eq!(warnings.count(), expected, "{:?}", *logged);
    }
}
