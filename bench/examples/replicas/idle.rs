//! The requests of a group in which nothing happens.

use std::time::{Duration, Instant};

use deltafifo_testkit::{ApiServer, ShardSelectors};
use tokio::time::sleep;

use crate::cluster::{
    Failure, Requests, SHARDS, Timing, create_leases, create_maps, reached, server,
};
use crate::replica::{Mode, Plan, Replica};
use crate::row::{Row, count};

const MEMBERS: usize = 10;
const OBJECTS: usize = 1000;

pub(crate) async fn measure(timing: Timing, window: Duration) -> Result<Vec<Row>, Failure> {
    let plan = Plan { mode: Mode::Warm, objects: OBJECTS, timing, began: Instant::now() };
    let server = cluster()?;
    let mut members = Vec::new();
    for number in 0..MEMBERS {
        members.push(Replica::start(plan, &server.client(), &format!("pod-{number}")).await?);
    }
    let beside = cluster()?;
    let plan = Plan { mode: Mode::Unsharded, ..plan };
    let unsharded = Replica::start(plan, &beside.client(), "unsharded").await?;

    let share = SHARDS / MEMBERS..=SHARDS.div_ceil(MEMBERS);
    let is_balanced = || members.iter().all(|member| share.contains(&member.owned().len()));
    reached("balance of an idle group", timing.lease_duration * 8, is_balanced).await?;
    // The last writes of the hand-overs.
    sleep(timing.retry_period * 2).await;
    server.forget_requests();
    beside.forget_requests();
    let began = Instant::now();
    sleep(window).await;
    let (seen, without) = (Requests::of(&server), Requests::of(&beside));
    let seconds = began.elapsed().as_secs_f64();
    let per_second =
        |requests: &Requests| count(requests.renewals + requests.lease_writes) / seconds;
    for member in members {
        member.kill().await;
    }
    unsharded.kill().await;
    // 5 % above the renewals of all members, each third of the lease duration: 2.1 by default.
    let bar = 1.05 * 3.0 * count(MEMBERS) / timing.lease_duration.as_secs_f64();
    Ok(vec![
        Row::new("idle, 10 members, 64 shards: writes of Leases", "1/s", per_second(&seen))
            .bar(bar)
            .unsharded(per_second(&without)),
        Row::new("idle: gets, lists and new watches", "", count(seen.reads))
            .bar(0.0)
            .unsharded(count(without.reads)),
    ])
}

fn cluster() -> Result<ApiServer, Failure> {
    let server = server(ShardSelectors::Ignored);
    create_leases(&server)?;
    create_maps(&server, OBJECTS)?;
    Ok(server)
}
