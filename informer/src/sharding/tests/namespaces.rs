//! Tests of groups of one name in several namespaces.

use deltafifo_testkit::ApiServer;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::sleep;

use super::rig::*;
use crate::sharding::ShardGroup;

/// Returns the labels and the value of each gauge of owned shards, in order.
fn owned(recorder: &DebuggingRecorder) -> Vec<(Vec<String>, f64)> {
    let all = recorder.snapshotter().snapshot().into_vec();
    let gauges = all.into_iter().filter_map(|(key, _, _, value)| {
        let key = key.key();
        let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
        match value {
            DebugValue::Gauge(value) if key.name() == "shard_group_owned_shards" => {
                Some((labels.collect::<Vec<_>>(), value.into_inner()))
            }
            _ => None,
        }
    });
    let mut gauges: Vec<_> = gauges.collect();
    gauges.sort_by(|(labels, _), (others, _)| labels.cmp(others));
    gauges
}

#[tokio::test(start_paused = true)]
async fn groups_of_one_name_in_two_namespaces_do_not_disturb_each_other() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server: ApiServer = server();
    apply_leases(&server, "mall", 8);
    let of_shop = Replica::start(&server, "a");
    // Other settings would end a group that reads the Leases of the first one.
    let builder = ShardGroup::builder(server.client(), "mall", "counter");
    let mut of_mall = Replica::start_with(builder.identity("a").shards(8).beside_others());
    of_shop.owns(16).await;
    of_mall.owns(8).await;
    let label = |namespace: &str| vec!["name=counter".to_owned(), format!("namespace={namespace}")];
    assert_eq!(owned(&recorder), [(label("mall"), 8.0), (label("shop"), 16.0)]);
    // Longer than the settle time and the lease duration.
    sleep(60 * SECOND).await;
    of_mall.stop();
    assert_eq!(of_mall.ended().await, Ok(()));
    sleep(60 * SECOND).await;
    assert_eq!(of_shop.group.owned().borrow().len(), 16);
    for replica in [&of_shop, &of_mall] {
        assert_eq!(replica.reported(), [] as [String; 0]);
    }
}
