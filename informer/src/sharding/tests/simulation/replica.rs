//! A replica of a program: a member of the group, and a controller whose reconciles write.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::history::{Fact, History, InProgress, Object, Tenure, Work};
use super::machine::LocalClock;
use crate::runtime::controller::Action;
use crate::runtime::reflector::Store;
use crate::runtime::{Controller, watcher};
use crate::sharding::{Permit, RunError, ShardGroup, is_lost};
use crate::{KubeListerWatcher, SharedInformer};

/// A running replica. Its tasks end with the runtime.
pub struct Replica {
    pub group: ShardGroup,
    store: Store<ConfigMap>,
    stop: Option<oneshot::Sender<()>>,
    run: JoinHandle<Result<(), RunError>>,
    /// The controller, and its informer in split mode.
    tasks: Vec<JoinHandle<()>>,
}

impl Replica {
    /// Starts a replica in the current runtime.
    pub fn start(group: ShardGroup, client: Client, program: Program) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let run = tokio::spawn(group.run_until(async {
            // If the sender is dropped, the process is killed.
            let _ = stopped.await;
        }));
        let mut tasks = Vec::new();
        let controller = if program.is_split {
            let source = KubeListerWatcher::new::<ConfigMap>(client, &(), None);
            let maps = SharedInformer::<ConfigMap>::in_shards(&group, source);
            let maps = maps.build().expect("the settings are valid");
            let controller = Controller::from_informer(&maps);
            tasks.push(tokio::spawn(async move { _ = maps.run().await }));
            controller
        } else {
            Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default())
        };
        let store = controller.store();
        let controller = controller
            .sharded(&group)
            .run(reconcile, |_, error, _| policy(error), Arc::new(program))
            .for_each(|_| async {});
        tasks.push(tokio::spawn(controller));
        Self { group, store, stop: Some(stop), run, tasks }
    }

    /// Returns whether the store has this object.
    pub fn has(&self, object: &Object) -> bool {
        self.store.state().iter().any(|map| self::object(map) == *object)
    }

    /// Asks the replica to stop.
    pub fn stop(&mut self) {
        let stop = self.stop.take();
        // It may have ended.
        let _ = stop.map(|stop| stop.send(()));
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_none()
    }

    /// Returns how the run of the group has ended, or `None` if it goes on. Call it until it has
    /// ended.
    pub fn ended(&mut self) -> Option<Result<(), String>> {
        if self.tasks.iter().any(JoinHandle::is_finished) {
            return Some(Err("a controller or an informer has ended".to_owned()));
        }
        let ended = (&mut self.run).now_or_never()?;
        Some(
            ended
                .map_err(|panic| panic.to_string())
                .and_then(|ended| ended.map_err(|error| error.to_string())),
        )
    }
}

/// The context of a replica's reconciles.
pub struct Program {
    pub machine: usize,
    pub seed: u64,
    /// Whether the informer contains only the objects of the member's shards.
    pub is_split: bool,
    pub clock: LocalClock,
    pub history: History,
}

/// A reconcile in progress.
struct Reconcile<'p> {
    program: &'p Program,
    work: Work,
    is_complete: bool,
    _in_progress: InProgress,
}

impl Program {
    fn begin(&self, map: &ConfigMap, permit: &Permit) -> Reconcile<'_> {
        let now = self.clock.now();
        let work = Work { machine: self.machine, object: object(map), begun: now };
        let begun = Fact::Begun {
            work: work.clone(),
            version: version(map),
            shard: permit.shard(),
            tenure: tenure(permit),
            member: permit.member().to_owned(),
        };
        self.history.record(now, begun);
        Reconcile {
            program: self,
            work,
            is_complete: false,
            _in_progress: self.history.begin_work(),
        }
    }

    /// Returns random numbers for a reconcile. They do not depend on the order in which reconciles
    /// begin.
    fn random(&self, map: &ConfigMap) -> Rng {
        let mut seed = self.seed ^ version(map).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in map.name_any().bytes() {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let now = self.clock.now().as_millis();
        Rng::with_seed(seed ^ u64::try_from(now).expect("a history is short"))
    }
}

impl Drop for Reconcile<'_> {
    fn drop(&mut self) {
        let Self { program, work, is_complete, .. } = self;
        let dropped = Fact::Dropped { work: work.clone(), is_complete: *is_complete };
        program.history.record(program.clock.now(), dropped);
    }
}

pub fn object(map: &ConfigMap) -> Object {
    let key = format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any());
    Object { key, uid: map.uid().unwrap_or_default() }
}

pub fn version(map: &ConfigMap) -> u64 {
    map.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn tenure(permit: &Permit) -> Tenure {
    Tenure { uid: permit.uid().to_owned(), transitions: permit.transitions() }
}

/// Works for a while, and writes what it saw unless the object says so already.
async fn reconcile(map: Arc<ConfigMap>, program: Arc<Program>) -> Result<Action, kube::Error> {
    let permit = Permit::current().expect("a sharded controller has a permit");
    let mut reconcile = program.begin(&map, &permit);
    let mut random = program.random(&map);
    // Two reconciles of an object never begin at the same time.
    let most = [1, 100, 1_000, 1_000, 3_000, 20_000][random.usize(..6)];
    sleep(Duration::from_millis(random.u64(1..=most))).await;
    if let Some(written) = written(&map, &permit) {
        let maps = Api::<ConfigMap>::namespaced(
            permit.client(),
            map.metadata.namespace.as_deref().unwrap_or_default(),
        );
        if random.u8(..4) == 0 {
            // A task that does not notice that its permit is lost. Its writes are refused.
            let delay = Duration::from_millis(random.u64(..30_000));
            let in_progress = program.history.begin_work();
            tokio::spawn(async move {
                sleep(delay).await;
                // The object may have been changed.
                let _ = maps.replace(&written.name_any(), &PostParams::default(), &written).await;
                drop((permit, in_progress));
            });
        } else {
            maps.replace(&written.name_any(), &PostParams::default(), &written).await?;
        }
    }
    reconcile.is_complete = true;
    Ok(Action::await_change())
}

/// Returns the object as a reconcile writes it, or `None` if it is so already.
fn written(map: &ConfigMap, permit: &Permit) -> Option<ConfigMap> {
    let data = map.data.clone().unwrap_or_default();
    let input = data.get("input").cloned().unwrap_or_default();
    if data.get("output") == Some(&input) {
        return None;
    }
    let mut written = map.clone();
    let fields = [
        ("input", input.clone()),
        ("output", input),
        ("uid", permit.uid().to_owned()),
        ("transitions", permit.transitions().to_string()),
        ("member", permit.member().to_owned()),
    ];
    written.data = Some(fields.map(|(field, value)| (field.to_owned(), value)).into());
    Some(written)
}

fn policy(error: &kube::Error) -> Action {
    if is_lost(error) { Action::await_change() } else { Action::requeue(Duration::from_secs(1)) }
}
