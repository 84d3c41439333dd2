//! A replica: an informer, a controller of config maps, and a member of the group unless the
//! controller is unsharded. It records its reconciles.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use clap::ValueEnum;
use deltafifo_informer::runtime::Controller;
use deltafifo_informer::runtime::controller::{Action, Config};
use deltafifo_informer::sharding::{Permit, ShardBy, ShardGroup, ShardSet};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::ShardSelectors;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use tokio::sync::{broadcast, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::cluster::{Failure, SHARDS, Timing, number_of};

/// The objects that a replica has, and those that it reconciles.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// It has and reconciles all objects.
    Unsharded,
    /// It has all objects.
    Warm,
    /// It has the objects of its shards, and a server that does not shard sends all.
    Split,
    /// It has the objects of its shards, and the server sends only these.
    SplitServer,
}

impl Mode {
    fn by(self) -> ShardBy {
        if self == Self::SplitServer { ShardBy::Uid } else { ShardBy::Key }
    }

    pub(crate) fn selectors(self) -> ShardSelectors {
        if self == Self::SplitServer { ShardSelectors::Honoured } else { ShardSelectors::Ignored }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Unsharded => "unsharded",
            Self::Warm => "warm",
            Self::Split => "split",
            Self::SplitServer => "split, sharding server",
        }
    }
}

/// The reconciles of a replica. All atomics are counts or marks that guard no other data.
pub(crate) struct Record {
    began: Instant,
    /// The time of the first reconcile of each object, in microseconds since `began`; 0 if there
    /// was none.
    first: Vec<AtomicU32>,
    /// The shard of each object that was reconciled.
    shard: Vec<AtomicU8>,
    /// The time at which each shard was last lost.
    lost: [AtomicU32; SHARDS],
    calls: AtomicUsize,
    distinct: AtomicUsize,
    /// The reconciles but the first of each object whose shard was not lost in between.
    repeated_in_term: AtomicUsize,
}

impl Record {
    fn new(began: Instant, objects: usize) -> Self {
        Self {
            began,
            first: (0..objects).map(|_| AtomicU32::new(0)).collect(),
            shard: (0..objects).map(|_| AtomicU8::new(0)).collect(),
            lost: [const { AtomicU32::new(0) }; SHARDS],
            calls: AtomicUsize::new(0),
            distinct: AtomicUsize::new(0),
            repeated_in_term: AtomicUsize::new(0),
        }
    }

    fn now(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_micros()).unwrap_or(u32::MAX).max(1)
    }

    fn add(&self, map: &ConfigMap) {
        self.calls.fetch_add(1, Relaxed);
        let Some(number) = number_of(map).filter(|number| *number < self.first.len()) else {
            return;
        };
        if let Some(permit) = Permit::current() {
            self.shard[number].store(permit.shard(), Relaxed);
        }
        let (first, shard) = (self.first[number].load(Relaxed), self.shard[number].load(Relaxed));
        if first == 0 {
            self.first[number].store(self.now(), Relaxed);
            self.distinct.fetch_add(1, Relaxed);
        } else if self.lost[usize::from(shard)].load(Relaxed) < first {
            self.repeated_in_term.fetch_add(1, Relaxed);
        }
    }

    /// Forgets all reconciles.
    pub(crate) fn clear(&self) {
        self.first.iter().for_each(|first| first.store(0, Relaxed));
        self.distinct.store(0, Relaxed);
        self.repeated_in_term.store(0, Relaxed);
        self.calls.store(0, Relaxed);
    }

    /// Returns the number of reconciles.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }

    /// Returns the number of reconciles of objects that were reconciled before, by this replica,
    /// and in the same term of their shard.
    pub(crate) fn repeated_in_term(&self) -> usize {
        self.repeated_in_term.load(Relaxed)
    }

    /// Returns the number of objects that were reconciled.
    pub(crate) fn distinct(&self) -> usize {
        self.distinct.load(Relaxed)
    }

    /// Returns for each object that was reconciled its number, its shard, and the time of its first
    /// reconcile in seconds since the start of the measurement.
    pub(crate) fn reconciled(&self) -> impl Iterator<Item = (usize, u8, f64)> {
        let objects = self.first.iter().zip(&self.shard).enumerate();
        objects.filter_map(|(number, (first, shard))| match first.load(Relaxed) {
            0 => None,
            first => Some((number, shard.load(Relaxed), seconds(first))),
        })
    }

    /// Returns the time at which the shard was last lost, in seconds since the start of the
    /// measurement.
    pub(crate) fn lost(&self, shard: u8) -> f64 {
        seconds(self.lost[usize::from(shard)].load(Relaxed))
    }
}

fn seconds(micros: u32) -> f64 {
    f64::from(micros) / 1e6
}

/// A replica that runs in tasks until it is stopped or killed.
pub(crate) struct Replica {
    pub(crate) informer: SharedInformer<ConfigMap>,
    pub(crate) record: Arc<Record>,
    pub(crate) group: Option<ShardGroup>,
    /// Requests a reconcile of every object.
    pub(crate) all: broadcast::Sender<()>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Failure>>,
}

/// The parameters that all replicas of a measurement share.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) objects: usize,
    pub(crate) timing: Timing,
    /// The start of the measurement.
    pub(crate) began: Instant,
}

impl Plan {
    /// Returns the seconds since the start of the measurement.
    pub(crate) fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

impl Replica {
    /// Starts a replica. If it is warm, waits until its informer has synced. The replica begins to
    /// join the group when this returns.
    pub(crate) async fn start(plan: Plan, client: &Client, pod: &str) -> Result<Self, Failure> {
        let Plan { mode, objects, timing, began } = plan;
        let builder = || timing.group(client.clone(), pod, mode.by()).build();
        let group = (mode != Mode::Unsharded).then(builder).transpose()?;
        let source = KubeListerWatcher::new::<ConfigMap>(client.clone(), &(), None);
        let builder = match &group {
            Some(group) if mode != Mode::Warm => SharedInformer::in_shards(group, source),
            _ => SharedInformer::<ConfigMap>::builder(source),
        };
        let informer = builder.on_error(|error| eprintln!("informer: {error}")).build()?;
        let record = Arc::new(Record::new(began, objects));
        let (all, triggers) = broadcast::channel(1);

        let controller = Controller::from_informer(&informer)
            .with_config(Config::default().concurrency(8))
            .reconcile_all_on(futures_util::stream::unfold(triggers, |mut triggers| async {
                triggers.recv().await.ok()?;
                Some(((), triggers))
            }));
        let controller = match &group {
            Some(group) => controller.sharded(group),
            None => controller,
        };
        let reconcile = |map: Arc<ConfigMap>, record: Arc<Record>| async move {
            record.add(&map);
            Ok::<_, Infallible>(Action::await_change())
        };
        let stream =
            controller.run(reconcile, |_, _, _| Action::await_change(), Arc::clone(&record));
        let mut parts = JoinSet::new();
        parts.spawn(stream.for_each(|next| {
            if let Err(error) = next {
                eprintln!("controller: {error}");
            }
            ready(())
        }));
        let running = informer.clone();
        parts
            .spawn(async move { running.run().await.unwrap_or_else(|error| eprintln!("{error}")) });
        if let Some(group) = &group {
            // An informer in split mode has synced with nothing.
            parts.spawn(record_losses(group.clone(), Arc::clone(&record)));
            informer.wait_for_sync().await?;
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let member = group.clone();
        let task = tokio::spawn(async move {
            // The parts are aborted when the run ends.
            let _parts = parts;
            // An error means that the replica was dropped, which stops it as well.
            let stopped = async { drop(stopped.await) };
            match member {
                Some(member) => member.run_until(stopped).await?,
                None => stopped.await,
            }
            Ok(())
        });
        Ok(Self { informer, record, group, all, stop, task })
    }

    /// Returns the shards that the replica owns.
    pub(crate) fn owned(&self) -> ShardSet {
        self.group.as_ref().map_or_else(ShardSet::default, |group| *group.owned().borrow())
    }

    /// Ends the replica without a release of its shards.
    pub(crate) async fn kill(self) {
        self.task.abort();
        // An error says that the task was aborted.
        let _ = self.task.await;
    }

    /// Asks the replica to stop, and waits until it has released its shards.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        // Fails if the replica has ended, which its result explains.
        let _ = self.stop.send(());
        self.task.await?
    }
}

/// Records when the member loses shards.
async fn record_losses(group: ShardGroup, record: Arc<Record>) {
    let mut owned = group.owned();
    let mut known = ShardSet::default();
    while owned.changed().await.is_ok() {
        let now = *owned.borrow_and_update();
        for shard in known.iter().filter(|shard| !now.contains(*shard)) {
            record.lost[usize::from(shard)].store(record.now(), Relaxed);
        }
        known = now;
    }
}
