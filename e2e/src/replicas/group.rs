//! A group: replicas that share config maps, and the faults that strike them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use deltafifo::BoxError;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use rustix::process::Signal;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, sleep_until};

use super::changes::Changes;
use super::fault::Fault;
use super::figures::Figures;
use super::history::{Change, Entry, Reader, Recorder};
use super::judge::judge;
use super::phases::Phase;
use super::view::View;
use super::{MEMBERS, ReplicaOptions, SHARDS};
use crate::history::is_of;
use crate::process::{Proxied, this_program};
use crate::scenarios::Setting;
use crate::servers::{NAMESPACE, Servers};

/// The label that all Leases of a group have. Its value is the name of the group.
const LABEL: &str = "deltafifo/group";
/// The longest time that servers and replicas may need, in addition to the lease durations.
const SLACK: Duration = Duration::from_secs(60);

/// A group of replicas.
pub struct Group {
    name: String,
    port: u16,
    options: ReplicaOptions,
    leases: Api<Lease>,
    reader: Reader,
    view: View,
    changes: Changes,
    /// The running replicas, the oldest first.
    replicas: Vec<Proxied>,
    /// The number of replicas that were started.
    started: usize,
    phases: Vec<Phase>,
    /// The file of the errors of the replicas.
    log: PathBuf,
    /// The file to which the history is written if the group fails.
    file: PathBuf,
}

impl Group {
    /// Starts a group, and waits until it is at rest.
    pub async fn start(
        setting: &Setting,
        servers: &Servers,
        recorder: &Recorder,
        name: String,
        options: ReplicaOptions,
    ) -> Result<Self, BoxError> {
        let port = servers.port();
        let leases = Api::namespaced(servers.client(), NAMESPACE);
        create_leases(&leases, &name).await?;
        let mut group = Self {
            port,
            options,
            leases,
            reader: recorder.reader(&name),
            view: View::default(),
            changes: Changes::start(port, &name).await?,
            replicas: Vec::new(),
            started: 0,
            phases: Vec::new(),
            log: setting.dir.join(format!("{name}.log")),
            file: setting.dir.join(format!("{name}.history")),
            name,
        };
        group.begin(Fault::Join, None);
        for _ in 0..MEMBERS {
            group.start_replica()?;
        }
        group.recover().await?;
        Ok(group)
    }

    /// Begins a phase with a fault, which strikes the process with this name.
    pub fn begin(&mut self, fault: Fault, victim: Option<String>) {
        self.reader.read(|entry| self.view.apply(entry));
        // The first phase has all entries.
        let from = if self.phases.is_empty() { 0 } else { self.view.version() };
        self.phases.push(Phase { fault, from, began: Instant::now(), victim });
    }

    /// Waits until the group is at rest, with the usual number of replicas.
    pub async fn recover(&mut self) -> Result<(), BoxError> {
        let rest = self.rest(MEMBERS).await.map(drop);
        self.reader.kept(rest, &self.file)
    }

    /// Inflicts a fault, and waits until the group is at rest with the usual number of replicas.
    pub async fn inflict(&mut self, fault: Fault) -> Result<(), BoxError> {
        // The pause is random, so that faults come at any time between two renewals.
        sleep(self.options.timing.lease_duration.mul_f64(fastrand::f64() / 3.0)).await;
        let inflicted = self.struck(fault).await;
        self.reader.kept(inflicted, &self.file)?;
        self.recover().await
    }

    /// Judges the history.
    ///
    /// # Errors
    /// If the record is wrong, or has a fault that is not permitted.
    pub async fn conclude(mut self) -> Result<Figures, BoxError> {
        let judged = async {
            let _paused = self.rest(MEMBERS).await?;
            let history = self.reader.all();
            Ok(Figures::of(&history, &self.phases, &judge(&history)?)?)
        };
        let judged: Result<_, BoxError> = judged.await;
        self.reader.kept(judged, &self.file)
    }

    async fn struck(&mut self, fault: Fault) -> Result<(), BoxError> {
        let chosen = fastrand::usize(..self.replicas.len());
        match fault {
            Fault::Kill => {
                self.begin(fault, Some(self.replicas[chosen].name()));
                let mut victim = self.replicas.remove(chosen);
                victim.process.signal(Signal::KILL)?;
                victim.process.ended(SLACK).await?;
                self.rest(MEMBERS - 1).await?;
                self.join()
            }
            Fault::Stop | Fault::Cut => {
                self.begin(fault, None);
                let ends = Instant::now() + self.options.timing.lease_duration * 3;
                self.set_working(chosen, fault, false).await?;
                self.rest(MEMBERS - 1).await?;
                sleep_until(ends).await;
                self.set_working(chosen, fault, true).await
            }
            Fault::Terminate => {
                self.begin(fault, None);
                self.terminate(chosen).await?;
                self.rest(MEMBERS - 1).await?;
                self.join()
            }
            Fault::Join => {
                self.join()?;
                self.rest(MEMBERS + 1).await?;
                self.begin(Fault::Terminate, None);
                self.terminate(chosen).await
            }
            Fault::Roll => {
                self.begin(fault, None);
                for _ in 0..MEMBERS {
                    let name = self.start_replica()?;
                    let is_joined = |change: &Change| {
                        matches!(change, Change::Member { lease: Some(lease), .. }
                            if lease.holder.as_ref().is_some_and(|holder| is_of(holder, &name)))
                    };
                    self.next("member", is_joined).await?;
                    self.terminate(0).await?;
                }
                Ok(())
            }
            Fault::ShardDeleted => {
                let number = u8::try_from(fastrand::u32(..SHARDS))?;
                let is_deleted = |change: &Change| matches!(change, Change::Shard { shard, lease: None } if *shard == number);
                self.delete(fault, &format!("{}-shard-{number:03}", self.name), is_deleted).await
            }
            Fault::MemberDeleted => {
                let name = self.view.member(chosen).ok_or("no member has a Lease")?;
                let is_deleted = |change: &Change| matches!(change, Change::Member { name: other, lease: None } if *other == name);
                self.delete(fault, &format!("{}-{name}", self.name), is_deleted).await
            }
            Fault::GroupDeleted => {
                let is_deleted = |change: &Change| *change == Change::Group(None);
                self.delete(fault, &self.name.clone(), is_deleted).await?;
                self.rest(MEMBERS).await?;
                // The next member that joins creates the Lease.
                self.join()?;
                self.next("Lease of the group", |it| matches!(it, Change::Group(Some(_)))).await?;
                self.rest(MEMBERS + 1).await?;
                self.begin(Fault::Terminate, None);
                self.terminate(chosen).await
            }
            Fault::ApiKilled | Fault::EtcdGone => {
                Err(format!("{fault} strike all groups, not one").into())
            }
        }
    }

    /// Stops or cuts off a replica, or lets it work again.
    async fn set_working(
        &mut self,
        chosen: usize,
        fault: Fault,
        is_working: bool,
    ) -> Result<(), BoxError> {
        let Proxied { process, proxy } = &mut self.replicas[chosen];
        match (fault, is_working) {
            (Fault::Stop, false) => process.signal(Signal::STOP),
            (Fault::Stop, true) => process.signal(Signal::CONT),
            (_, false) => proxy.cut().await,
            (_, true) => proxy.open(),
        }
    }

    /// Begins a phase in which another replica joins.
    fn join(&mut self) -> Result<(), BoxError> {
        self.begin(Fault::Join, None);
        self.start_replica().map(drop)
    }

    /// Starts another replica. Returns its name.
    fn start_replica(&mut self) -> Result<String, BoxError> {
        let name = format!("r{}", self.started);
        self.started += 1;
        let mut command = this_program("replica")?;
        command.args(self.options.arguments());
        command.args([format!("--group={}", self.name), format!("--identity={name}")]);
        let at = |port| {
            command.arg(format!("--port={port}"));
            command
        };
        self.replicas.push(Proxied::start(&*name, self.port, at, &self.log)?);
        Ok(name)
    }

    /// Sends SIGTERM to a replica, and waits until it has ended.
    async fn terminate(&mut self, chosen: usize) -> Result<(), BoxError> {
        let mut replica = self.replicas.remove(chosen);
        replica.process.signal(Signal::TERM)?;
        let status = replica.process.ended(SLACK).await?;
        if status.success() {
            return Ok(());
        }
        Err(format!("the replica {} ended with {status} after SIGTERM", replica.name()).into())
    }

    /// Begins a phase with the deletion of a Lease, and waits until the history has it.
    async fn delete(
        &mut self,
        fault: Fault,
        lease: &str,
        is_deleted: impl Fn(&Change) -> bool,
    ) -> Result<(), BoxError> {
        self.begin(fault, None);
        self.leases.delete(lease, &DeleteParams::default()).await?;
        self.next("deletion", is_deleted).await
    }

    /// Waits until the history has a change that `wanted` accepts.
    async fn next(&mut self, what: &str, wanted: impl Fn(&Change) -> bool) -> Result<(), BoxError> {
        let view = &mut self.view;
        let is_wanted = |entry: &Entry| {
            view.apply(entry);
            wanted(&entry.change)
        };
        self.reader.next(what, SLACK, is_wanted).await.map(drop)
    }

    /// Lets config maps change for a random time. Then waits until the group is at rest, with this
    /// number of members. The config maps change again when the guard is dropped.
    async fn rest(&mut self, members: usize) -> Result<OwnedMutexGuard<()>, BoxError> {
        let lease_duration = self.options.timing.lease_duration;
        // Some of the changes come before the shards of a former owner are claimed, and some after
        // that. The last change of a config map may be at any time, and must be reconciled.
        sleep(lease_duration.mul_f64(fastrand::f64() * 1.5)).await;
        let paused = self.changes.paused().await;
        for replica in &mut self.replicas {
            if replica.process.has_ended()? {
                return Err(format!("the replica {} has ended", replica.name()).into());
            }
        }
        let view = &mut self.view;
        self.reader.read(|entry| view.apply(entry));
        let (shards, since) = (usize::try_from(SHARDS)?, view.version());
        let is_at_rest = |entry: &Entry| {
            view.apply(entry);
            view.check_rest(shards, members, since).is_ok()
        };
        let rest = self.reader.next("rest", lease_duration * 3 + SLACK, is_at_rest).await;
        match (rest, self.view.check_rest(shards, members, since)) {
            (Err(error), Err(why)) => Err(format!("{error}: {why}").into()),
            (rest, _) => rest.map(|_| paused),
        }
    }
}

/// Creates the Leases of the group and its shards, without holders, as a manifest does.
async fn create_leases(leases: &Api<Lease>, group: &str) -> Result<(), BoxError> {
    let shards = (0..SHARDS).map(|shard| format!("{group}-shard-{shard:03}"));
    for name in shards.chain([group.to_owned()]) {
        let metadata = ObjectMeta {
            name: Some(name),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), group.to_owned())])),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, ..Lease::default() };
        leases.create(&PostParams::default(), &lease).await?;
    }
    Ok(())
}
