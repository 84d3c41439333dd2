//! Tests of the metrics of a group.

use std::mem;

use deltafifo_testkit::{Fault, Verb};
use metrics::with_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::sleep;

use super::rig::*;

/// The metrics of a replica since the last call of [`recorded`].
#[derive(Debug, Default, PartialEq)]
struct Recorded {
    members: f64,
    claims: u64,
    releases: u64,
    losses: u64,
    fills: usize,
}

fn recorded(recorder: &DebuggingRecorder) -> Recorded {
    let mut totals = Recorded::default();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        match (key.key().name(), value) {
            ("shard_group_members", DebugValue::Gauge(value)) => totals.members = *value,
            ("shard_group_claims_total", DebugValue::Counter(count)) => totals.claims = count,
            ("shard_group_releases_total", DebugValue::Counter(count)) => totals.releases = count,
            ("shard_group_lost_memberships_total", DebugValue::Counter(count)) => {
                totals.losses = count;
            }
            ("shard_group_fill_duration_seconds", DebugValue::Histogram(values)) => {
                totals.fills = values.len();
            }
            _ => {}
        }
    }
    totals
}

/// Returns the number of fills since the last call.
fn fills(replica: &Replica) -> usize {
    mem::take(&mut *replica.fake.filled.lock()).len()
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_replica_count_its_moves_fills_and_lost_memberships() {
    let server = server();
    let [of_a, of_b] = [(); 2].map(|()| DebuggingRecorder::new());
    let mut a = with_local_recorder(&of_a, || Replica::start(&server, "a"));
    a.owns(16).await;
    let joined = Recorded { members: 1.0, claims: 16, fills: fills(&a), ..Recorded::default() };
    assert_eq!(recorded(&of_a), joined);

    let b = with_local_recorder(&of_b, || Replica::start(&server, "b"));
    b.owns(8).await;
    assert_eq!(recorded(&of_a), Recorded { members: 1.0, releases: 8, ..Recorded::default() });
    let joined = Recorded { members: 1.0, claims: 8, fills: fills(&b), ..Recorded::default() };
    assert_eq!(recorded(&of_b), joined);

    let member = members(&server).await.remove(0);
    assert!(member.starts_with("a_"));
    server.delete(&leases(), "shop", &name_of(&member)).unwrap();
    a.owns(0).await;
    a.owns(8).await;
    let again = Recorded { members: 1.0, claims: 8, losses: 1, fills: fills(&a), releases: 0 };
    assert_eq!(recorded(&of_a), again);

    a.stop();
    assert_eq!(a.ended().await, Ok(()));
    assert_eq!(recorded(&of_a), Recorded { releases: 8, ..Recorded::default() });
}

#[tokio::test(start_paused = true)]
async fn fill_whose_shards_are_all_released_is_not_recorded() {
    let (server, recorder) = (server(), DebuggingRecorder::new());
    let mut replica = with_local_recorder(&recorder, || Replica::start(&server, "a"));
    replica.fake.fills.send_replace(false);
    sleep(SECOND).await;
    assert_eq!(fills(&replica), 1);
    // The member waits for this answer for a retry period.
    server.fault(Fault::silence().on(Verb::Delete));
    replica.stop();
    sleep(SECOND).await;
    assert!((0..16).all(|shard| holder(&server, shard).is_empty()));
    replica.fake.fills.send_replace(true);
    assert_eq!(replica.ended().await, Ok(()));
    assert_eq!(recorded(&recorder).fills, 0);
}
