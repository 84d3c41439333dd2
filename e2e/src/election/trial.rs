//! Trials: two candidates compete for a lease, and a fault ends the term of the leader.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use deltafifo::BoxError;
use futures_util::future::try_join_all;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use rustix::process::Signal;
use tokio::process::Command;
use tokio::time::{Instant, sleep, sleep_until};

use super::CandidateOptions;
use super::candidate::LOST;
use super::fault::Fault;
use super::history::{Change, Entry, Reader, Recorder};
use super::judge::{Verdict, judge};
use crate::history::Object;
use crate::process::{Proxied, this_program};
use crate::scenarios::Setting;
use crate::servers::{NAMESPACE, Servers};
use crate::timing::Timing;

/// The names of the candidates.
const NAMES: [&str; 2] = ["a", "b"];
/// The longest time that servers and candidates may need, in addition to the lease durations.
const SLACK: Duration = Duration::from_secs(60);

/// Trials of one fault that run at the same time, each with a lease of its own.
pub struct Batch {
    fault: Fault,
    timing: Timing,
    client: Client,
    trials: Vec<Trial>,
}

/// The outcome of a trial.
pub struct Outcome {
    pub fault: Fault,
    pub verdict: Verdict,
    /// The time from the fault to the first write of the second leader. After SIGTERM it begins at
    /// the release, if there is one, since the leader may still wait for an answer. `None` if a
    /// candidate lost its lease without the fault: the machine was overloaded, or both candidates
    /// of another program had led.
    pub handover: Option<Duration>,
}

struct Trial {
    lease: String,
    reader: Reader,
    leader: Proxied,
    standby: Proxied,
    /// Whether a candidate lost its lease before the fault.
    is_lost: bool,
    /// Whether the candidates run another program. Its faults are counted, and are no errors.
    is_rival: bool,
    /// The file to which the history is written if the trial fails.
    file: PathBuf,
}

impl Batch {
    /// Starts the trials with these numbers. Waits until there are leaders, and then for a lease
    /// duration, in which the other candidates begin to watch.
    pub async fn start(
        setting: &Setting,
        servers: &Servers,
        recorder: &Recorder,
        (fault, numbers): (Fault, Range<usize>),
        options: CandidateOptions,
    ) -> Result<Self, BoxError> {
        let (client, port) = (servers.client(), servers.port());
        let timing = options.timing;
        let options = CandidateOptions { release_on_cancel: fault == Fault::Terminate, ..options };
        let trials = numbers.map(|number| {
            Trial::start(setting, (&client, port), recorder, format!("{fault}-{number}"), options)
        });
        let trials = try_join_all(trials).await?;
        sleep(timing.lease_duration).await;
        Ok(Self { fault, timing, client, trials })
    }

    /// Returns the number of writes of all leases in this time.
    pub async fn count_lease_writes(&self, during: Duration) -> usize {
        let begun = Instant::now();
        sleep(during).await;
        let ended = begun + during;
        let is_counted = |entry: &Entry| {
            matches!(entry.change, Change::Lease(Some(_))) && (begun..ended).contains(&entry.at)
        };
        let all = self.trials.iter().map(|trial| trial.reader.all());
        all.map(|history| history.iter().filter(|entry| is_counted(entry)).count()).sum()
    }

    /// Inflicts the fault on each lease, and waits until the other candidate has led and written.
    /// Returns an error if the record is wrong, or if a history of this project's candidates breaks
    /// a rule or has a write that the fault does not permit.
    pub async fn conclude(self, servers: &mut Servers) -> Result<Vec<Outcome>, BoxError> {
        let Self { fault, timing, client, mut trials } = self;
        for trial in &mut trials {
            trial.is_lost = trial.has_ended()?;
        }
        let began = Instant::now();
        let away = timing.lease_duration;
        match fault {
            Fault::ApiKilled => servers.kill_api_for(away).await?,
            Fault::EtcdGone => servers.stop_etcd_for(away).await?,
            _ => {}
        }
        let trials = trials.into_iter().map(|trial| trial.conclude(fault, began, timing, &client));
        try_join_all(trials).await
    }
}

impl Trial {
    async fn start(
        setting: &Setting,
        (client, port): (&Client, u16),
        recorder: &Recorder,
        lease: String,
        options: CandidateOptions,
    ) -> Result<Self, BoxError> {
        let metadata = |name: String| ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        let (maps, leases) = (
            Api::namespaced(client.clone(), NAMESPACE),
            Api::namespaced(client.clone(), NAMESPACE),
        );
        for object in Object::ALL {
            let map = ConfigMap { metadata: metadata(object.name(&lease)), ..ConfigMap::default() };
            maps.create(&PostParams::default(), &map).await?;
        }
        // A lease without a holder is taken at once. (Candidates that use the crate
        // kube-leader-election require that the other fields are set.)
        let long_ago = Some(MicroTime(Timestamp::UNIX_EPOCH));
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            acquire_time: long_ago.clone(),
            renew_time: long_ago,
            lease_duration_seconds: Some(1),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let free = Lease { metadata: metadata(lease.clone()), spec: Some(spec) };
        leases.create(&PostParams::default(), &free).await?;
        let mut reader = recorder.reader(&lease);
        let [first, second] =
            NAMES.map(|name| start_candidate(setting, port, (&lease, name), options));
        let (first, second) = (first?, second?);
        let is_write = |entry: &Entry| matches!(entry.change, Change::Write { .. });
        let written = reader.next("first write", SLACK, is_write).await?;
        let (leader, standby) = if written.change.is_write_of(&first.name()) {
            (first, second)
        } else {
            (second, first)
        };
        let file = setting.dir.join(format!("{lease}.history"));
        let is_rival = setting.candidate.is_some();
        Ok(Self { lease, reader, leader, standby, is_lost: false, is_rival, file })
    }

    /// Ends the leader's term by the fault, and judges the history.
    async fn conclude(
        mut self,
        fault: Fault,
        began: Instant,
        timing: Timing,
        client: &Client,
    ) -> Result<Outcome, BoxError> {
        let concluded = async {
            let handover = self.handover(fault, began, timing, client).await?;
            // A late write would come now.
            sleep(timing.lease_duration / 3).await;
            let verdict = self.verdict(fault, handover.is_some())?;
            Ok(Outcome { fault, verdict, handover })
        };
        let concluded: Result<_, BoxError> = concluded.await;
        self.reader.kept(concluded, &self.file)
    }

    /// Returns whether a candidate has ended. Candidates of another program may both have led.
    fn has_ended(&mut self) -> Result<bool, BoxError> {
        Ok(self.leader.process.has_ended()? || self.standby.process.has_ended()?)
    }

    /// Inflicts the fault. (A fault of the servers has already been inflicted, at `began`.) Waits
    /// for the end of the leader and for a write of the other candidate. Returns
    /// [`Outcome::handover`].
    async fn handover(
        &mut self,
        fault: Fault,
        mut began: Instant,
        timing: Timing,
        client: &Client,
    ) -> Result<Option<Duration>, BoxError> {
        let Timing { lease_duration, .. } = timing;
        let limit = lease_duration * 3 + SLACK;
        let standby = self.standby.name();
        if !fault.is_of_servers() {
            // The pause is random, so that faults come at any time between two renewals.
            sleep(lease_duration.mul_f64(fastrand::f64() / 3.0)).await;
            self.is_lost = self.has_ended()?;
            began = Instant::now();
        }
        if self.is_lost {
            return Ok(None);
        }
        match fault {
            Fault::Kill => self.leader.process.signal(Signal::KILL)?,
            Fault::Stop => self.leader.process.signal(Signal::STOP)?,
            Fault::Terminate => {
                self.leader.process.signal(Signal::TERM)?;
                if !self.leader_ended(fault, limit).await? {
                    return Ok(None);
                }
                // Another program may end without a release. Its lease then expires.
                let is_rival = self.is_rival;
                let is_end = |entry: &Entry| {
                    entry.change.is_release() || is_rival && entry.change.is_claim_of(&standby)
                };
                let end = self.reader.next("release", limit, is_end).await?;
                if end.change.is_release() {
                    began = end.at;
                }
            }
            Fault::Cut => self.leader.proxy.cut().await?,
            Fault::LeaseDeleted => {
                let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
                leases.delete(&self.lease, &DeleteParams::default()).await?;
            }
            Fault::ApiKilled | Fault::EtcdGone => {}
        }
        let is_write = |entry: &Entry| entry.change.is_write_of(&standby);
        let first = tokio::select! {
            biased;
            first = self.reader.next("write of the second leader", limit, is_write) => first?,
            _ = self.standby.process.ended(limit) => return Ok(None),
        };
        if fault == Fault::Stop {
            sleep_until(began + lease_duration * 3).await;
            self.leader.process.signal(Signal::CONT)?;
        }
        let is_planned = self.leader_ended(fault, limit).await?;
        Ok(is_planned.then_some(first.at.saturating_duration_since(began)))
    }

    /// Waits until the leader's process has ended. Returns false if the leader lost its lease
    /// before the fault ended its term. Another program may end with any other code.
    async fn leader_ended(&mut self, fault: Fault, limit: Duration) -> Result<bool, BoxError> {
        let code = self.leader.process.ended(limit).await?.code();
        if code == fault.exit_code() {
            Ok(true)
        } else if code == Some(LOST.into()) {
            Ok(false)
        } else if self.is_rival {
            Ok(true)
        } else {
            Err(format!("the leader ended with the code {code:?}").into())
        }
    }

    fn verdict(&self, fault: Fault, is_planned: bool) -> Result<Verdict, BoxError> {
        let verdict = judge(&self.reader.all())?;
        if self.is_rival {
            return Ok(verdict);
        }
        if let Some(broken) = verdict.broken.first() {
            return Err(broken.to_string().into());
        }
        let (versioned, plain) = (verdict.versioned, verdict.plain);
        if versioned.overlapped > 0 {
            return Err("a write with a version is overlapped".into());
        }
        if is_planned && fault.permits_no_late_write() && versioned.late + plain.late > 0 {
            return Err(format!("{} writes are late", versioned.late + plain.late).into());
        }
        Ok(verdict)
    }
}

/// Starts a candidate for this lease: of this program, or of another one that the command line
/// names. Its errors are appended to `LEASE.log` in the directory of the servers.
fn start_candidate(
    setting: &Setting,
    port: u16,
    (lease, name): (&str, &str),
    options: CandidateOptions,
) -> Result<Proxied, BoxError> {
    let mut command = match &setting.candidate {
        Some(rival) => Command::new(rival),
        None => this_program("candidate")?,
    };
    command.args(options.arguments());
    command.args([format!("--lease={lease}"), format!("--identity={name}")]);
    let log = setting.dir.join(format!("{lease}.log"));
    let at = |port| {
        command.arg(format!("--port={port}"));
        command
    };
    Proxied::start(name, port, at, &log)
}
