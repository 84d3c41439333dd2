//! A deterministic simulation of candidates whose processes, clocks and networks fail.
//!
//! A seed decides everything: the durations of the candidates, the faults and their times, and the
//! UUIDs and delays of the electors. `SEEDS=1000` runs the seeds 0 to 999, and `SEED=17` runs one
//! seed and prints its history.
//!
//! Tokio has one clock. The simulation therefore divides all durations of a candidate by `r`, which
//! has the same effect as clocks that run at the rate `r`. The wall clock of each candidate is set
//! forward and back. A candidate waits for its own lease duration or the one in the lease,
//! whichever is longer. With most seeds the network replaces the duration in the lease by one
//! second, so that each candidate waits for its own. With the others the candidates count as
//! configured differently. A candidate that is paused neither works nor sends or receives anything,
//! but its campaign sees that time passes.

mod log;
mod network;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_testkit::{ApiServer, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::Term;
use super::tests::{builder_of, lease, leases, server};
use crate::lease::{CHOSEN_MUTANT, Mutant, set_wall_clock};
use crate::util::mutant::with_chosen;
use crate::util::seeds::{Total, check, on_all_cores};
use log::{Log, Outcome};
use network::{Kind, Network, Weather};

const MILLISECOND: Duration = Duration::from_millis(1);

/// The number of events in a history. About two seconds pass after each.
const EVENTS: usize = 60;

/// The time after which exactly one candidate must lead if nothing fails. In this time a silent
/// watch ends, the lease of a former leader expires, and a missing lease is created and expires.
const SETTLED: Duration = Duration::from_secs(90);

/// The time in which the load of idle candidates is measured.
const IDLE: Duration = Duration::from_secs(30);

struct Candidate {
    number: usize,
    network: Network,
    /// The rate of the candidate's clock, by which its durations are divided.
    rate: f64,
    log: Log,
    process: Option<Process>,
}

/// A process of a candidate.
struct Process {
    cancel: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// The settings of one process.
#[derive(Clone, Copy)]
struct Settings {
    campaigns_again: bool,
    releases: bool,
    /// The time after which the work returns; `None` if it goes on until the term ends.
    work: Option<Duration>,
}

impl Candidate {
    fn start(&mut self, random: &mut fastrand::Rng) {
        let settings = Settings {
            campaigns_again: random.bool(),
            releases: random.u8(..5) > 0,
            work: (random.u8(..8) == 0).then(|| random.u32(1_000..40_000) * MILLISECOND),
        };
        self.start_with(settings);
    }

    fn start_with(&mut self, settings: Settings) {
        let Settings { campaigns_again, releases, work } = settings;
        self.log.event(format_args!("{} starts", self.number));
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds / self.rate);
        let (cancel, cancelled) = oneshot::channel::<()>();
        let mut elector = builder_of(self.network.client(), &self.number.to_string())
            .lease_duration(seconds(15.0))
            .renew_deadline(seconds(10.0))
            .retry_period(seconds(2.0))
            .release_on_cancel(releases)
            .cancel_on(async {
                // A dropped sender is a killed process.
                let _ = cancelled.await;
            })
            .on_error(|_| {})
            .build()
            .unwrap();
        let shared = Arc::get_mut(&mut elector.shared).expect("the elector has no clones");
        shared.clock.machine = self.number;
        let (number, log, network) = (self.number, self.log.clone(), self.network.clone());
        let task = tokio::spawn(async move {
            let lead = |term| lead(log.clone(), number, term, work);
            let process = async {
                if campaigns_again {
                    return elector.run_again(lead).await.unwrap();
                }
                // Its pod restarts.
                while let Err(lost) = elector.run(lead).await {
                    log.event(format_args!("{number}: {lost}"));
                    sleep(Duration::from_secs(1)).await;
                }
            };
            network.run(process).await;
            log.event(format_args!("{number} has ended"));
        });
        self.process = Some(Process { cancel: Some(cancel), task });
    }

    /// Returns how many periods of `seconds` seconds, by the candidate's clock, pass in `time`.
    fn times(&self, time: Duration, seconds: f64) -> usize {
        let period = Duration::from_secs_f64(seconds / self.rate);
        usize::try_from(time.as_millis() / period.as_millis()).expect("the time is short")
    }

    fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.task.is_finished())
    }

    fn cancel(&mut self) {
        self.log.event(format_args!("{} is cancelled", self.number));
        let cancel = self.process.as_mut().and_then(|process| process.cancel.take());
        // It may have ended.
        let _ = cancel.map(|cancel| cancel.send(()));
    }

    async fn kill(&mut self) {
        self.log.event(format_args!("{} is killed", self.number));
        if let Some(Process { cancel: _cancel, task }) = self.process.take() {
            task.abort();
            // An error unless it had ended.
            let _ = task.await;
        }
    }

    /// Sets the wall clock forward or back, by up to a minute.
    fn set_wall_clock(&self, random: &mut fastrand::Rng) {
        let ahead = random.u32(..60_000) * MILLISECOND;
        self.log.event(format_args!("the wall clock of {} is set to {ahead:?}", self.number));
        self.log.step(self.number);
        set_wall_clock(self.number, ahead);
    }

    fn pause(&self, is_paused: bool) {
        let what = if is_paused { "is paused" } else { "goes on" };
        self.log.event(format_args!("{} {what}", self.number));
        self.log.pause(self.number, is_paused);
        self.network.pause(is_paused);
    }
}

/// Works and writes as a leader.
async fn lead(log: Log, candidate: usize, term: Term, ends_after: Option<Duration>) {
    let mut work = log.begin(candidate, &term);
    let maps = Api::<ConfigMap>::namespaced(term.client(), "shop");
    let map = json!({
        "metadata": { "name": "log" },
        "data": { "uid": term.uid(), "term": term.transitions().to_string() },
    });
    let map: Arc<ConfigMap> = Arc::new(serde_json::from_value(map).unwrap());
    let rounds = ends_after.map_or(u128::MAX, |time| time.as_millis() / 250);
    let mut round = 0;
    while round < rounds {
        work.works(&term);
        if round % 6 == 0 {
            let (maps, map) = (maps.clone(), Arc::clone(&map));
            // A write of a task of its own, which its leader does not wait for. The log judges it.
            tokio::spawn(async move { maps.replace("log", &PostParams::default(), &map).await });
        }
        sleep(250 * MILLISECOND).await;
        round += 1;
    }
}

/// Changes the lease in a random way, as a person would. Deletes the lease or its duration only if
/// `has_one_duration`, because candidates that are configured differently rely on that duration.
fn edit(server: &ApiServer, log: &Log, random: &mut fastrand::Rng, has_one_duration: bool) {
    let current = server.get(&leases(), "shop", "counter");
    let spec = current.map_or_else(|| json!({}), |lease| lease["spec"].clone());
    let with = |field: &str, value: Value| {
        let mut edited = spec.clone();
        edited[field] = value;
        if spec == json!({}) && edited["holderIdentity"].is_null() {
            log.event("there was no lease");
            log.excuse();
        }
        server.apply(lease(&edited)).unwrap();
    };
    match random.u8(..5) {
        0 if has_one_duration => {
            log.event("the lease is deleted by hand");
            // It may have been deleted before.
            let _ = server.delete(&leases(), "shop", "counter");
        }
        1 if has_one_duration => {
            log.event("the duration is removed by hand");
            with("leaseDurationSeconds", Value::Null);
        }
        2 => {
            log.event("the holder is removed by hand");
            log.excuse();
            with("holderIdentity", json!(""));
        }
        3 => {
            log.event("another holder is written by hand");
            with("holderIdentity", json!("a person"));
        }
        _ => {
            log.event("the lease is touched by hand");
            with("strategy", Value::Null);
        }
    }
}

async fn simulate(seed: u64) -> Outcome {
    let log = Log::new();
    let mut random = fastrand::Rng::with_seed(seed);
    let server = server();
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": "shop", "name": "log" } });
    server.apply(map).unwrap();
    // Clocks with different rates, or candidates that are configured differently.
    let has_one_duration = random.u8(..4) > 0;
    let seconds = has_one_duration.then_some(1);
    let count = random.usize(2..=4);
    let mut candidates: Vec<_> = (0..count)
        .map(|number| Candidate {
            number,
            network: Network::new(&server, &log, seconds, random.u64(..)),
            rate: [1.0, 1.49, 1.0 + 0.49 * random.f64()][random.usize(..3)],
            log: log.clone(),
            process: None,
        })
        .collect();
    for candidate in &mut candidates {
        set_wall_clock(candidate.number, 30_000 * MILLISECOND);
        candidate.start(&mut random);
    }
    let began = Instant::now();
    for _ in 0..EVENTS {
        sleep(random.u32(..4_000) * MILLISECOND).await;
        // Most rules are about the failure of a leader.
        let leader = log.leaders().first().copied().filter(|_| random.bool());
        let candidate = &mut candidates[leader.unwrap_or(random.usize(..count))];
        log.count_faults(1);
        match random.u8(..18) {
            0 => candidate.cancel(),
            1 => candidate.kill().await,
            2 | 3 => candidate.pause(true),
            4..=6 => candidate.pause(false),
            7..=10 => candidate.network.set_weather(Weather::random(&mut random)),
            11 | 12 => candidate.network.set_weather(Weather::CUT),
            13 | 14 => candidate.network.set_weather(Weather::CALM),
            15 | 16 => candidate.set_wall_clock(&mut random),
            _ => edit(&server, &log, &mut random, has_one_duration),
        }
        for candidate in &mut candidates {
            if !candidate.is_running() && random.bool() {
                candidate.start(&mut random);
            }
        }
    }
    check_load(&candidates, began.elapsed(), &log);
    log.event("calm begins");
    for candidate in &mut candidates {
        candidate.network.set_weather(Weather::CALM);
        candidate.pause(false);
        candidate.kill().await;
        candidate.start_with(Settings { campaigns_again: true, releases: true, work: None });
    }
    sleep(SETTLED).await;
    check_idle(&server, &candidates, &log).await;
    for candidate in &mut candidates {
        candidate.cancel();
    }
    sleep(Duration::from_secs(1)).await;
    if !log.leaders().is_empty() || candidates.iter().any(Candidate::is_running) {
        log.violation("a candidate has not ended a second after its cancellation");
    }
    log.outcome()
}

/// Checks that failures do not make a candidate flood the server: it repeats a request after the
/// retry period. A process that starts sends a few more.
fn check_load(candidates: &[Candidate], time: Duration, log: &Log) {
    for candidate in candidates {
        let mut sent = candidate.network.take_sent();
        sent.remove(&Kind::Work);
        if sent.values().sum::<usize>() > 2 * candidate.times(time, 2.0) + 20 {
            log.violation(format_args!("{} sends {sent:?} in {time:?}", candidate.number));
        }
    }
}

/// Checks that exactly one candidate leads, and that no idle candidate reads the lease, opens more
/// than one watch, or writes the lease except to renew it.
async fn check_idle(server: &ApiServer, candidates: &[Candidate], log: &Log) {
    let leaders = log.leaders();
    for candidate in candidates {
        candidate.network.take_sent();
    }
    server.forget_requests();
    sleep(IDLE).await;
    if leaders.len() != 1 || leaders != log.leaders() {
        log.violation(format_args!("{leaders:?} lead in calm, then {:?}", log.leaders()));
    }
    for candidate in candidates {
        let sent = candidate.network.take_sent();
        let sent = |kind| sent.get(&kind).copied().unwrap_or_default();
        let leads = leaders.contains(&candidate.number);
        let renewals = candidate.times(IDLE, 5.0) + 1;
        let most_writes = if leads { renewals } else { 0 };
        // A server ends a watch after about five minutes.
        if sent(Kind::Read) > 0 || sent(Kind::Watch) > 1 || sent(Kind::Write) > most_writes {
            let counts = [Kind::Read, Kind::Watch, Kind::Write].map(sent);
            log.violation(format_args!("{} sends {counts:?} while idle", candidate.number));
        }
    }
    if server.requests().iter().any(|request| request.verb() == Verb::Get) {
        log.violation("the lease is read while idle");
    }
}

/// Runs the history of a seed.
fn history(seed: u64) -> Outcome {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulate(seed))
}

#[test]
fn no_history_has_two_leaders() {
    let total = on_all_cores(|seed| {
        let Outcome { lines, violations, leaders, faults } = history(seed);
        check(seed, &lines.join("\n"), &violations);
        assert!(leaders > 0, "no leader; rerun with SEED={seed}");
        [leaders as u64, u64::from(faults)]
    });
    let Total { counts: [terms, faults], seeds, seconds } = total;
    println!("leader election: seeds={seeds} seconds={seconds} terms={terms} faults={faults}");
}

#[test]
fn same_seed_gives_the_same_history() {
    for seed in 0..5 {
        assert_eq!(history(seed).lines, history(seed).lines, "seed {seed}");
    }
}

/// Defects of the protocol, each with seeds. The history of the first seed shows the defect. If a
/// change of the shipped code or of the simulation changes the histories, that of a later seed
/// does.
const DEFECTS: [(Mutant, Range<u64>); 2] =
    [(Mutant::DeadlineFromAnswer, 627..3000), (Mutant::HolderIgnoresMonotonicClock, 19..600)];

#[test]
fn history_of_each_defect_has_a_violation() {
    for (mutant, mut seeds) in DEFECTS {
        let found = with_chosen(&CHOSEN_MUTANT, mutant, || {
            seeds.find(|seed| !history(*seed).violations.is_empty())
        });
        println!("{mutant:?} has a violation with the seed {found:?}");
        assert!(found.is_some(), "{mutant:?} survives");
    }
}
