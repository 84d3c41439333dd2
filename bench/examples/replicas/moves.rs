//! The moves of shards: a fifth replica joins four, one of the first is killed, another one stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deltafifo_informer::sharding::ShardSet;
use tokio::time::sleep;

use crate::cluster::{
    Failure, Requests, SHARDS, Timing, create_leases, create_maps, reached, server,
};
use crate::replica::{Mode, Plan, Replica};
use crate::row::{Row, count};

/// The replicas before the fifth one joins.
const MEMBERS: usize = 4;

pub(crate) async fn measure(
    mode: Mode,
    objects: usize,
    timing: Timing,
) -> Result<Vec<Row>, Failure> {
    let title = mode.title();
    let server = server(mode.selectors());
    create_leases(&server)?;
    create_maps(&server, objects)?;
    let plan = Plan { mode, objects, timing, began: Instant::now() };
    let limit = timing.lease_duration * 8;
    let start = async |pod: &str| Replica::start(plan, &server.client(), pod).await;
    let mut replicas = Vec::new();
    for number in 0..MEMBERS {
        replicas.push(start(&format!("pod-{number}")).await?);
    }
    let is_balanced = || replicas.iter().all(|replica| replica.owned().len() == SHARDS / MEMBERS);
    reached("balance of four replicas", limit, is_balanced).await?;
    at_rest(&replicas).await;
    let shards_of = shards_of(&replicas, objects)?;

    server.forget_requests();
    let joiner = start("joiner").await?;
    let began_to_join = plan.elapsed();
    let share = SHARDS / (MEMBERS + 1);
    let is_owned =
        || joiner.owned().len() >= share && owned(&replicas) + joiner.owned().len() == SHARDS;
    reached("all shards owned after the join", limit, is_owned).await?;
    let owned_after = plan.elapsed() - began_to_join;
    let moved = joiner.owned().len();
    let joiners = [joiner];
    at_rest(&joiners).await;
    let requests = Requests::of(&server);
    let lost = |shard| replicas.iter().map(|former| former.record.lost(shard)).fold(0.0, f64::max);
    let unserved =
        Unserved::new(|shard| Some(lost(shard)).filter(|at| *at > began_to_join), &joiners);
    // A server that does not shard sends all objects.
    let [move_bar, kill_bar] = if mode == Mode::Split { [2.0, 3.0] } else { [0.5, 2.0] };
    let row = |name: &str, unit, value| Row::new(format!("{title}, {name}"), unit, value);
    let mut rows = vec![
        row("join 4 to 5: Lease writes but renewals", "", count(requests.lease_writes)).bar(30.0),
        row("join: writes of objects", "", count(requests.object_writes)).bar(0.0),
        row("join: shards moved", "", count(moved)),
        row("join: start to all shards owned, with the settle time", "s", owned_after),
        row("join: a moved key unserved, p99", "s", unserved.p99()?).bar(move_bar),
        row(
            "join: a moved shard without an owner until its first reconcile",
            "s",
            unserved.shard(),
        )
        .bar(move_bar),
        row("join: lists of objects", "", count(requests.lists)),
        row("join: pages of these lists", "", count(requests.pages)),
    ];

    replicas.extend(joiners);
    let (killed, owned_before) = take_one(&mut replicas);
    let killed_at = plan.elapsed();
    killed.kill().await;
    reached("all shards owned after the kill", limit, || owned(&replicas) == SHARDS).await?;
    at_rest(&replicas).await;
    expect_all(&shards_of, owned_before, &replicas)?;
    let lost = |shard: u8| owned_before.contains(shard).then_some(killed_at);
    let unserved = Unserved::new(lost, &replicas);
    let bar = timing.lease_duration.as_secs_f64() + kill_bar;
    rows.push(row("kill to the first reconcile of each shard", "s", unserved.shard()).bar(bar));
    rows.push(row("kill to the first reconcile of the last key", "s", unserved.last()));

    let (leaver, owned_before) = take_one(&mut replicas);
    let (record, asked) = (Arc::clone(&leaver.record), plan.elapsed());
    server.forget_requests();
    leaver.stop().await?;
    reached("all shards owned after the stop", limit, || owned(&replicas) == SHARDS).await?;
    at_rest(&replicas).await;
    expect_all(&shards_of, owned_before, &replicas)?;
    let lost = |shard| owned_before.contains(shard).then(|| record.lost(shard).max(asked));
    let unserved = Unserved::new(lost, &replicas);
    let requests = Requests::of(&server);
    rows.extend([
        row("stop: a moved key unserved, p99", "s", unserved.p99()?).bar(move_bar),
        row(
            "stop: a moved shard without an owner until its first reconcile",
            "s",
            unserved.shard(),
        )
        .bar(move_bar),
        row("stop: lists of objects, by all heirs", "", count(requests.lists)),
        row("stop: pages of these lists", "", count(requests.pages)),
    ]);
    for replica in replicas {
        replica.kill().await;
    }
    Ok(rows)
}

/// Takes the first replica, and forgets the reconciles of the others. Returns it with its shards.
fn take_one(replicas: &mut Vec<Replica>) -> (Replica, ShardSet) {
    let taken = replicas.swap_remove(0);
    let owned = taken.owned();
    for heir in replicas.iter() {
        heir.record.clear();
    }
    (taken, owned)
}

/// Returns the shard of each object.
///
/// # Errors
/// If an object was not reconciled.
fn shards_of(replicas: &[Replica], objects: usize) -> Result<Vec<u8>, Failure> {
    let mut shards = vec![None; objects];
    for (number, shard, _) in replicas.iter().flat_map(|replica| replica.record.reconciled()) {
        shards[number] = Some(shard);
    }
    let missed = |number| format!("object {number} was not reconciled").into();
    (0..).zip(shards).map(|(number, shard)| shard.ok_or_else(|| missed(number))).collect()
}

/// Checks that the heirs have reconciled every object of these shards.
fn expect_all(shards_of: &[u8], shards: ShardSet, heirs: &[Replica]) -> Result<(), Failure> {
    let mut missed: Vec<_> = shards_of.iter().map(|shard| shards.contains(*shard)).collect();
    for (number, ..) in heirs.iter().flat_map(|heir| heir.record.reconciled()) {
        missed[number] = false;
    }
    match missed.iter().filter(|missed| **missed).count() {
        0 => Ok(()),
        missed => Err(format!("{missed} objects of shards that moved were not reconciled").into()),
    }
}

fn owned(replicas: &[Replica]) -> usize {
    replicas.iter().map(|replica| replica.owned().len()).sum()
}

/// Waits until no object was reconciled for a second.
async fn at_rest(replicas: &[Replica]) {
    let calls = || replicas.iter().map(|replica| replica.record.calls()).sum::<usize>();
    let mut known = None;
    while known != Some(calls()) {
        known = Some(calls());
        sleep(Duration::from_secs(1)).await;
    }
}

/// The times in seconds from the loss of shards to the first reconciles of their objects.
struct Unserved {
    keys: Vec<f64>,
    /// The first reconcile of each shard.
    shards: [f64; SHARDS],
}

impl Unserved {
    /// Compares the times at which shards were lost with the first reconciles of the heirs.
    fn new(lost: impl Fn(u8) -> Option<f64>, heirs: &[Replica]) -> Self {
        let (mut keys, mut shards) = (Vec::new(), [f64::INFINITY; SHARDS]);
        for (_, shard, at) in heirs.iter().flat_map(|heir| heir.record.reconciled()) {
            if let Some(lost) = lost(shard) {
                let first = &mut shards[usize::from(shard)];
                *first = first.min(at - lost);
                keys.push(at - lost);
            }
        }
        keys.sort_by(f64::total_cmp);
        Self { keys, shards }
    }

    fn p99(&self) -> Result<f64, Failure> {
        let keys = self.keys.len();
        Ok(*self.keys.get(keys * 99 / 100).ok_or("no key has moved")?)
    }

    fn last(&self) -> f64 {
        self.keys.last().copied().unwrap_or_default()
    }

    /// Returns the longest time of a shard.
    fn shard(&self) -> f64 {
        self.shards.iter().copied().filter(|time| time.is_finite()).fold(0.0, f64::max)
    }
}
