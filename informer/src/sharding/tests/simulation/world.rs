//! The world of a history: machines, their network, and the objects of the server.

use std::sync::Arc;
use std::time::Duration;

use deltafifo_testkit::{ApiServer, Resource, ShardSelectors, status};
use fastrand::Rng;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::rig::{apply_leases, leases};
use super::history::{Fact, History, Tenure};
use super::machine::{LocalClock, Machine};
use super::message::{Kind, client};
use super::network::Network;
use super::replica::{Program, Replica, object, version};
use super::rules::Setting;
use super::weather::Weather;
use crate::reflector::RUNS_INLINE;
use crate::sharding::{ShardBy, ShardGroup, ShardSet};

/// The time between two checks whether everything is at rest.
const STEP: Duration = Duration::from_secs(2);

/// The longest time for which work goes on when nothing fails: a reconcile, and then its write in a
/// task of its own, which another reconcile follows.
const WORK: Duration = Duration::from_secs(80);

const NAMESPACES: [&str; 3] = ["shop", "stock", "staff"];

/// The durations of a replica, by its own clock.
#[derive(Clone, Copy)]
struct Durations {
    lease: Duration,
    renew_deadline: Duration,
    settle: Duration,
}

/// A time to settle that is longer than a history.
const NEVER: Duration = Duration::from_secs(3_600);

pub struct World {
    pub now: Duration,
    pub random: Rng,
    pub history: History,
    pub network: Network,
    pub machines: Vec<Machine>,
    pub shards: u8,
    /// The length of a turn, and the least time that a request takes.
    pub turn: Duration,
    seed: u64,
    is_split: bool,
    by: ShardBy,
    durations: Vec<Durations>,
    rates: Vec<f64>,
    objects: u32,
    starts: u32,
    /// The times when suspended machines resume.
    resumes: Vec<Option<Duration>>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        RUNS_INLINE.set(true);
        let mut random = Rng::with_seed(seed);
        let history = History::default();
        let count = [2, 2, 3, 3, 4][random.usize(..5)];
        let shards = [4, 4, 8][random.usize(..3)];
        let is_split = random.u8(..3) == 0;
        let selectors =
            [ShardSelectors::Ignored, ShardSelectors::Honoured, ShardSelectors::HonouredInLists]
                [random.usize(..3)];
        let server = ApiServer::builder()
            .resource(leases())
            .resource(Resource::config_maps())
            .shard_selectors(selectors)
            .bookmarks(Duration::from_secs(60))
            .build();
        if random.u8(..4) > 0 {
            apply_leases(&server, "shop", shards);
        }
        let rates: Vec<f64> =
            (0..count).map(|_| [1.0, 1.4, 1.0 + 0.4 * random.f64()][random.usize(..3)]).collect();
        let is_uniform = random.u8(..4) > 0;
        let all_settle = random.u8(..8) > 0;
        let none_settles = !all_settle && random.bool();
        let durations = (0..count)
            .map(|_| {
                let lease = if is_uniform { 15 } else { random.u64(9..=21) };
                let lease = Duration::from_secs(lease);
                let settle = Duration::from_secs([5, random.u64(..20)][random.usize(..2)]);
                let settles = all_settle || !none_settles && random.bool();
                let settle = if settles { settle } else { NEVER };
                Durations { lease, renew_deadline: lease * 2 / 3, settle }
            })
            .collect();
        let network = Network::new(server, history.clone(), count, random.u64(..));
        let machines = rates.iter().map(|rate| Machine::new(*rate, random.u64(..))).collect();
        let by = [ShardBy::Key, ShardBy::Namespace, ShardBy::Uid][random.usize(..3)];
        let turn = Duration::from_millis([50, 100, 200][random.usize(..3)]);
        let mut world = Self {
            now: Duration::ZERO,
            random,
            history,
            network,
            machines,
            shards,
            turn,
            seed,
            is_split,
            by,
            durations,
            rates,
            objects: 8,
            starts: 0,
            resumes: vec![None; count],
        };
        for _ in 0..8 {
            world.change_object();
        }
        world
    }

    /// Runs everything for `time`.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let end = until.min(self.now + self.turn);
            self.network.serve_until(end);
            for machine in 0..self.machines.len() {
                if self.resumes[machine].is_some_and(|at| at <= self.now) {
                    self.resume(machine);
                }
                if !self.machines[machine].is_suspended() {
                    while let Some(at) = self.network.next_delivery(machine, end) {
                        let at = at.max(self.now);
                        self.machines[machine].run_until(at);
                        self.network.deliver(machine, at);
                    }
                }
                self.machines[machine].run_until(end);
                let replica = self.machines[machine].replica();
                if let Some(ended) = replica.and_then(Replica::ended) {
                    self.history.note(end, format!("the replica of {machine} has ended"));
                    if let Err(error) = ended {
                        self.history.violation(end, format!("{machine} fails: {error}"));
                    }
                    self.machines[machine].kill();
                }
            }
            self.network.collect(end);
            self.now = end;
        }
    }

    pub fn start(&mut self, machine: usize) {
        self.starts += 1;
        let pod = format!("pod-{machine}-{}", self.starts);
        self.history.note(self.now, format!("{pod} starts on {machine}"));
        let Durations { lease, renew_deadline, settle } = self.durations[machine];
        let outbox = Arc::clone(&self.network.outbox);
        let (history, by, shards) = (self.history.clone(), self.by, self.shards);
        let (seed, is_split) = (self.seed, self.is_split);
        self.machines[machine].start(self.now, |clock: LocalClock| {
            let client = client(outbox, machine, clock);
            let group = ShardGroup::builder(client.clone(), "shop", "counter")
                .identity(pod)
                .shards(shards.into())
                .by(by)
                .lease_duration(lease)
                .renew_deadline(renew_deadline)
                .settle(settle)
                .beside_others()
                .on_error(|_| {})
                .build()
                .expect("the settings are valid");
            Replica::start(group, client, Program { machine, seed, is_split, clock, history })
        });
    }

    pub fn stop(&mut self, machine: usize) {
        if let Some(replica) = self.machines[machine].replica() {
            replica.stop();
            self.history.note(self.now, format!("{machine} is asked to stop"));
        }
    }

    pub fn kill(&mut self, machine: usize) {
        self.history.note(self.now, format!("{machine} is killed"));
        self.machines[machine].kill();
        if self.resumes[machine].take().is_some() {
            // The next process is not suspended.
            self.history.record(self.now, Fact::Resumed { machine });
        }
    }

    /// Suspends a machine for a time.
    pub fn suspend(&mut self, machine: usize, time: Duration) {
        if self.machines[machine].replica().is_some() && !self.machines[machine].is_suspended() {
            self.machines[machine].suspend();
            self.resumes[machine] = Some(self.now + time);
            self.history.record(self.now, Fact::Suspended { machine });
        }
    }

    pub fn resume(&mut self, machine: usize) {
        if self.resumes[machine].take().is_some() {
            self.machines[machine].resume(self.now);
            self.history.record(self.now, Fact::Resumed { machine });
        }
    }

    pub fn set_weather(&mut self, machine: usize, weather: Weather) {
        self.history.note(self.now, format!("{machine} has {weather:?}"));
        self.network.set_weather(self.now, machine, weather);
    }

    /// Sets the wall clock of a machine forward or back, by up to a minute.
    pub fn set_wall_clock(&mut self, machine: usize) {
        let ahead = Duration::from_millis(self.random.u64(..60_000));
        self.history.note(self.now, format!("the wall clock of {machine} is set to {ahead:?}"));
        self.machines[machine].wall = ahead;
    }

    /// Creates or changes an object, or rarely deletes one.
    pub fn change_object(&mut self) {
        let number = self.random.u32(..self.objects);
        let namespace = NAMESPACES[self.random.usize(..NAMESPACES.len())];
        let name = format!("cart-{number}");
        let server = self.network.server();
        if self.random.u8(..6) == 0 {
            let current = server.get(&Resource::config_maps(), namespace, &name);
            if let Ok(version) = server.delete(&Resource::config_maps(), namespace, &name) {
                self.history.note(self.now, format!("{version}: {namespace}/{name} is deleted"));
                let current = current.map(serde_json::from_value).expect("it was deleted");
                let object = object(&current.expect("a config map"));
                let mut stored_by = Vec::new();
                for (number, machine) in self.machines.iter_mut().enumerate() {
                    if machine.replica().is_some_and(|replica| replica.has(&object)) {
                        stored_by.push(number);
                    }
                }
                self.history.record(self.now, Fact::Deleted { object, stored_by });
            }
            return;
        }
        let input = self.random.u32(..1_000).to_string();
        let current = server.get(&Resource::config_maps(), namespace, &name);
        let mut object = current.unwrap_or_else(
            || json!({ "metadata": { "namespace": namespace, "name": name }, "data": {} }),
        );
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("ConfigMap");
        object["data"]["input"] = json!(input);
        let version = apply(server, object);
        self.history.note(self.now, format!("{version}: {namespace}/{name} has input {input}"));
    }

    /// Deletes a Lease of the group, a shard or a member by hand.
    pub fn delete_lease(&mut self) {
        let part = ["-shard-", "-member-", ""][self.random.usize(..3)];
        let names: Vec<String> = self.network.list::<Lease>().iter().map(Lease::name_any).collect();
        let is_of_kind = |name: &&String| match part {
            "" => *name == "counter",
            part => name.contains(part),
        };
        let of_kind: Vec<&String> = names.iter().filter(is_of_kind).collect();
        if let Some(name) = self.random.choice(&of_kind) {
            self.history.note(self.now, format!("{name} is deleted by hand"));
            self.network.server().delete(&leases(), "shop", name).expect("it was listed");
        }
    }

    /// Ends, breaks or fails all open watches.
    pub fn end_watches(&mut self) {
        let server = self.network.server();
        let ended = match self.random.u8(..4) {
            0 => server.end_watches(),
            1 => server.break_watches(),
            2 => server.error_watches(status::expired("simulated")),
            _ => {
                server.compact();
                server.break_watches()
            }
        };
        self.history.note(self.now, format!("{ended} watches end"));
    }

    /// Runs until everything has been at rest for `idle`: the shards are balanced, each replica
    /// watches, nothing is sent but renewals, and only running replicas have Leases. After
    /// `most`, and when no work is in progress any more, it is a violation if one of these is not
    /// so.
    ///
    /// If something else is sent after `most`, it must not recur within twice `idle`: an informer
    /// whose watch was cut silently may recover late.
    ///
    /// Every eighth seed accepts no rest before `most`. The first rest that is found could always
    /// lie between two requests, or two moves of a shard, that recur every half minute.
    pub fn rest(&mut self, most: Duration, idle: Duration) {
        let latest = self.now + most;
        let has_early_rest = !self.seed.is_multiple_of(8);
        let mut window = idle;
        loop {
            let from = self.now;
            let is_last = self.must_rest(latest);
            self.network.sent.clear();
            loop {
                self.run(STEP);
                let time = self.now.saturating_sub(from);
                let goes_on = is_last || (has_early_rest && self.is_at_rest(time));
                if !goes_on {
                    break;
                }
                // The Lease of a former member may be deleted later, so a rest goes on until
                // everything must be at rest.
                if time >= window && (self.must_rest(latest) || self.former_member().is_none()) {
                    let excesses = self.excesses(time);
                    if !excesses.is_empty() && window == idle {
                        window = 2 * idle;
                        break;
                    }
                    let others = self.imbalance().into_iter().chain(self.former_member());
                    for violation in excesses.into_iter().chain(others) {
                        self.history.violation(self.now, violation);
                    }
                    return;
                }
            }
        }
    }

    /// Returns whether everything must be at rest: it is `latest`, and no work is in progress, or
    /// the longest time of work has passed as well.
    fn must_rest(&self, latest: Duration) -> bool {
        self.now >= latest && (!self.history.has_work() || self.now >= latest + WORK)
    }

    /// Returns whether nothing is left to happen if nothing fails, after a time in which little was
    /// sent.
    fn is_at_rest(&mut self, time: Duration) -> bool {
        let running: Vec<usize> = (0..self.machines.len())
            .filter(|machine| self.machines[*machine].replica().is_some())
            .collect();
        !self.history.has_work()
            && self.network.is_at_rest(self.now + STEP, &running)
            && self.excesses(time).is_empty()
            && self.imbalance().is_none()
    }

    /// Returns a violation unless the server has one member's Lease for each replica that runs.
    /// Others fence and delete those of former members.
    fn former_member(&mut self) -> Option<String> {
        let running = self.machines.iter_mut().filter_map(Machine::replica).count();
        let is_member = |lease: &&Lease| lease.name_any().contains("-member-");
        let members = self.network.list::<Lease>().iter().filter(is_member).count();
        (members != running).then(|| format!("{members} Leases of {running} members in calm"))
    }

    /// Returns a violation unless all shards are owned by the replicas, and equally if the replicas
    /// settle.
    fn imbalance(&mut self) -> Option<String> {
        let mut owned = Vec::new();
        for machine in &mut self.machines {
            if let Some(replica) = machine.replica() {
                owned.push(*replica.group.owned().borrow());
            }
        }
        let mut counts: Vec<usize> = owned.iter().map(|owned| owned.len()).collect();
        counts.sort_unstable();
        let all: ShardSet = owned.iter().flat_map(|owned| owned.iter()).collect();
        let settles = self.durations.iter().all(|durations| durations.settle < NEVER);
        let is_equal =
            !settles || counts.first().zip(counts.last()).is_some_and(|(a, b)| b - a <= 1);
        let shards = usize::from(self.shards);
        let is_balanced = counts.iter().sum::<usize>() == shards && all.len() == shards && is_equal;
        (!is_balanced).then(|| format!("the replicas own {counts:?} in calm"))
    }

    /// Returns a violation for each kind of requests that were sent since the network's counts were
    /// cleared, a time without changes, and are neither renewals of members' Leases nor watches
    /// that continue earlier ones.
    fn excesses(&self, time: Duration) -> Vec<String> {
        let mut excesses = Vec::new();
        for ((machine, kind), count) in &self.network.sent {
            let (machine, count) = (*machine, *count);
            let period = self.durations[machine].lease / 3;
            let period = period.min(self.durations[machine].renew_deadline / 2);
            let renewals = time.mul_f64(self.rates[machine]).as_millis() / period.as_millis() + 1;
            let most = match kind {
                Kind::WriteLease => usize::try_from(renewals).expect("the time is short"),
                Kind::WatchLeases | Kind::WatchObjects => 1,
                Kind::ListLeases | Kind::ListObjects | Kind::Work => 0,
            };
            if count > most {
                excesses.push(format!("{machine} sends {count} requests {kind:?} while idle"));
            }
        }
        excesses
    }

    /// Checks that all replicas have ended, and have released everything.
    pub fn check_end(&mut self) {
        for machine in 0..self.machines.len() {
            if self.machines[machine].replica().is_some() {
                self.history.violation(self.now, format!("{machine} does not stop"));
            }
        }
        for lease in self.network.list::<Lease>() {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            if let Some(holder) = holder.filter(|holder| !holder.is_empty()) {
                let violation = format!("{holder} holds {} after its end", lease.name_any());
                self.history.violation(self.now, violation);
            }
        }
    }

    /// Returns what the rules must know. Call it while the replicas own all shards.
    pub fn setting(&mut self) -> Setting {
        let maps = self.network.list::<ConfigMap>();
        let left = maps.iter().map(|map| (object(map), version(map))).collect();
        let holders = self.network.list::<Lease>().iter().filter_map(holder).collect();
        let deadlines = self.durations.iter().zip(&self.rates);
        let renew_deadlines =
            deadlines.map(|(durations, rate)| durations.renew_deadline.div_f64(*rate)).collect();
        let (by, is_split) = (self.by, self.is_split);
        Setting { by, is_split, renew_deadlines, left, holders }
    }
}

/// Returns the shard of a Lease, and the last claim of it.
fn holder(lease: &Lease) -> Option<(u8, Tenure)> {
    let name = lease.name_any();
    let shard = name.strip_prefix("counter-shard-")?.parse().ok()?;
    let transitions = lease.spec.as_ref()?.lease_transitions?;
    Some((shard, Tenure { uid: lease.uid()?, transitions }))
}

fn apply(server: &ApiServer, object: Value) -> u64 {
    server.apply(object).expect("the object is valid")
}
