//! Random histories of replicas that start, stop and are killed, while Leases are deleted and
//! requests fail. A seed decides everything. `SEEDS=1000` runs the seeds 0 to 999.

use std::time::Duration;

use deltafifo_testkit::{After, ApiServer, Fault};
use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::sleep;

use super::rig::*;
use crate::sharding::Permit;

const STEPS: usize = 40;

/// Work in progress, and objects of all shards.
struct Work {
    objects: Vec<ConfigMap>,
    permits: Vec<Permit>,
}

impl Work {
    /// Starts and ends work on some shards.
    fn change(&mut self, replicas: &[Replica], random: &mut Rng) {
        self.permits.retain(|_| random.bool());
        for object in &self.objects {
            let started = replicas.iter().filter(|_| random.u8(..4) == 0);
            self.permits.extend(started.filter_map(|replica| replica.group.admit(object)));
        }
    }

    /// Waits, and checks all the time that no two members work, or may start work, on a shard.
    /// Work ends when its permit is lost.
    async fn wait(&mut self, replicas: &[Replica], time: Duration) {
        let pause = Duration::from_millis(50);
        for _ in 0..time.as_millis() / pause.as_millis() {
            sleep(pause).await;
            self.permits.retain(Permit::is_held);
            for (shard, object) in self.objects.iter().enumerate() {
                let of_shard = |permit: &&Permit| usize::from(permit.shard()) == shard;
                let working = self.permits.iter().filter(of_shard).cloned();
                let starting = replicas.iter().filter_map(|replica| replica.group.admit(object));
                let permits: Vec<_> = working.chain(starting).collect();
                let mut members: Vec<_> = permits.iter().map(Permit::member).collect();
                members.sort_unstable();
                members.dedup();
                assert!(members.len() <= 1, "{members:?} work on shard {shard}");
            }
        }
    }
}

fn fault(random: &mut Rng) -> Fault {
    let fault = match random.u8(..4) {
        0 => Fault::refused(),
        1 => Fault::silence(),
        // The request is applied, and its answer is lost.
        2 => Fault::broken(After::Bytes(0)),
        _ => Fault::hang(After::Bytes(random.usize(0..5_000))),
    };
    fault.times(random.usize(1..20))
}

async fn step(server: &ApiServer, replicas: &mut Vec<Replica>, random: &mut Rng) {
    let at = (!replicas.is_empty()).then(|| random.usize(..replicas.len()));
    match (random.u8(..10), at) {
        (0..=1, _) | (_, None) if replicas.len() < 4 => {
            replicas.push(Replica::start(server, &format!("pod-{}", random.u8(..))));
        }
        (2, Some(at)) if replicas[at].stop.is_some() => replicas[at].stop(),
        // Its task is aborted.
        (3, Some(at)) => drop(replicas.swap_remove(at)),
        (4, _) => {
            // A fault must not strike the list.
            server.clear_faults();
            let members = members(server).await;
            if let Some(member) = random.choice(&members) {
                // Fails if the member has just deleted it.
                let _ = server.delete(&leases(), "shop", &name_of(member));
            }
        }
        (5, _) => {
            let shard = format!("counter-shard-{:03}", random.u8(..16));
            // Fails if it was deleted before.
            let _ = server.delete(&leases(), "shop", &shard);
        }
        (6, _) => _ = server.break_watches(),
        (7..=8, _) => server.fault(fault(random)),
        _ => server.clear_faults(),
    }
}

async fn history(seed: u64) {
    // Identities and delays.
    fastrand::seed(seed);
    let mut random = Rng::with_seed(seed);
    let mut work = Work { objects: (0..16).map(object_of).collect(), permits: Vec::new() };
    let server = server();
    let mut replicas = vec![Replica::start(&server, "pod")];
    for _ in 0..STEPS {
        step(&server, &mut replicas, &mut random).await;
        let time = Duration::from_millis(random.u64(..4_000));
        work.change(&replicas, &mut random);
        work.wait(&replicas, time).await;
    }
    server.clear_faults();
    replicas.push(Replica::start(&server, "last"));
    work.permits.clear();
    work.wait(&replicas, 90 * SECOND).await;
    let live = replicas.iter().filter(|replica| replica.stop.is_some());
    let mut owned: Vec<_> = live.map(|replica| replica.group.owned().borrow().len()).collect();
    owned.sort_unstable();
    assert_eq!(owned.iter().sum::<usize>(), 16, "{owned:?}");
    assert!(owned[owned.len() - 1] - owned[0] <= 1, "{owned:?}");
}

#[tokio::test(start_paused = true)]
async fn no_history_has_two_owners_of_a_shard_and_all_end_in_balance() {
    let seeds = std::env::var("SEEDS").map_or(20, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        println!("seed {seed}");
        history(seed).await;
    }
}
