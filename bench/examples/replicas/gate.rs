//! The cost of permits.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deltafifo_bench::process::cpu;
use deltafifo_informer::sharding::ShardGroup;
use deltafifo_testkit::ShardSelectors;
use k8s_openapi::api::core::v1::ConfigMap;
use nix::time::{ClockId, clock_gettime};
use tokio::task::spawn_blocking;

use crate::cluster::{
    Failure, SHARDS, Timing, config_map, create_leases, create_maps, reached, server,
};
use crate::replica::{Mode, Plan, Replica};
use crate::row::{Row, count};

const LIMIT: Duration = Duration::from_secs(120);
/// The number of times that every object is reconciled for a measurement.
const PASSES: usize = 5;

pub(crate) async fn measure(
    objects: usize,
    permits: usize,
    timing: Timing,
) -> Result<Vec<Row>, Failure> {
    let server = server(ShardSelectors::Ignored);
    create_leases(&server)?;
    create_maps(&server, objects)?;
    let plan = Plan { mode: Mode::Warm, objects, timing, began: Instant::now() };
    let sharded = Replica::start(plan, &server.client(), "only").await?;
    reached("a single member owns all shards", LIMIT, || sharded.owned().len() == SHARDS).await?;
    let sharded_nanos = nanos_a_reconcile(&sharded, objects).await?;

    let group = sharded.group.clone().ok_or("the replica has a group")?;
    let maps = (0..256).map(|number| serde_json::from_value(config_map(number)));
    let maps: Vec<ConfigMap> = maps.collect::<Result<_, _>>()?;
    let part = |range: Range<usize>| Arc::from(&maps[range]);
    let one = nanos_a_permit(&group, [part(0..256)], permits).await?;
    let two = nanos_a_permit(&group, [part(0..128), part(128..256)], permits).await?;
    let same = nanos_a_permit(&group, [part(0..1), part(0..1)], permits).await?;
    sharded.kill().await;

    let plan = Plan { mode: Mode::Unsharded, ..plan };
    let unsharded = Replica::start(plan, &server.client(), "unsharded").await?;
    let unsharded_nanos = nanos_a_reconcile(&unsharded, objects).await?;
    unsharded.kill().await;
    Ok(vec![
        Row::new("gate: CPU of a permit, one thread", "ns", one).bar(100.0),
        Row::new("gate: CPU of a permit, two threads, each with its objects", "ns", two).bar(100.0),
        Row::new("gate: CPU of a permit, two threads, one shard", "ns", same).bar(100.0),
        Row::new("controller: CPU of a reconcile that does nothing", "ns", sharded_nanos)
            .unsharded(unsharded_nanos),
    ])
}

/// Takes and drops permits in threads, each for objects of its own. Returns the CPU time of one,
/// which does not depend on other processes.
async fn nanos_a_permit<const THREADS: usize>(
    group: &ShardGroup,
    maps: [Arc<[ConfigMap]>; THREADS],
    permits: usize,
) -> Result<f64, Failure> {
    let threads = maps.map(|maps| {
        let group = group.clone();
        spawn_blocking(move || -> Result<Duration, Failure> {
            let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
            let before = cpu()?;
            let taken = maps.iter().cycle().take(permits);
            let granted = taken.filter(|map| black_box(group.admit(*map)).is_some()).count();
            if granted != permits {
                return Err(format!("{granted} of {permits} permits were granted").into());
            }
            Ok(cpu()?.saturating_sub(before))
        })
    });
    let mut used = Duration::ZERO;
    for thread in threads {
        used += thread.await??;
    }
    Ok(used.as_secs_f64() * 1e9 / count(THREADS * permits))
}

/// Returns the CPU time of a reconcile. It includes the request for it and the work queue.
async fn nanos_a_reconcile(replica: &Replica, objects: usize) -> Result<f64, Failure> {
    let record = &replica.record;
    reached("first reconciles", LIMIT, || record.calls() >= objects).await?;
    let before = cpu()?;
    for pass in 2..=PASSES + 1 {
        replica.all.send(())?;
        reached("reconciles of all objects", LIMIT, || record.calls() >= pass * objects).await?;
    }
    let used = cpu()?.saturating_sub(before);
    Ok(used.as_secs_f64() * 1e9 / count(PASSES * objects))
}
