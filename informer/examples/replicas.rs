//! Three replicas that share config maps: each writes its name into the maps of its shards. One of
//! them is killed or stopped every few seconds, and started again. Prints which replica owns how
//! many shards after each hand-over, and how many maps it has reconciled since its last line.
//!
//!     cargo run -p deltafifo-informer --features leader-election --example replicas
//!
//! That runs in a simulated cluster. For a real one, append `-- --kubeconfig ~/.kube/config`. In a
//! pod, pass `--in-cluster`, as `examples/deploy/replicas.yaml` does. The example writes Leases and
//! config maps with the label `deltafifo/group=deltafifo-replicas` in the namespace, and deletes
//! them at the end. If it is stopped before, the next run deletes them.

#[path = "cluster/access.rs"]
mod access;
#[path = "cluster/signal.rs"]
mod signal;

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fmt::Display;
use std::future::ready;
use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use access::Access;
use clap::Parser;
use deltafifo_informer::runtime::controller::{Action, Config as ControllerConfig};
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_informer::sharding::{BuildError, Permit, RunError, ShardGroup};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::core::{ApiResource, discovery::Scope};
use kube::{Api, Client, ResourceExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

const GROUP: &str = "deltafifo-replicas";
const LABEL: &str = "deltafifo/group";
const SHARDS: u32 = 16;
const MAPS: usize = 300;

/// Runs three replicas that share config maps, while they are killed and stopped.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The namespace of the Leases and the config maps.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// The number of seconds after which all replicas are stopped.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..))]
    seconds: u64,
}

/// Returns the server of the simulated cluster.
pub(crate) fn simulated() -> ApiServer {
    let leases = Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced);
    ApiServer::builder().resource(leases).resource(Resource::config_maps()).build()
}

/// A replica in a task.
struct Replica {
    name: &'static str,
    task: JoinHandle<Result<(), RunError>>,
    stop: oneshot::Sender<()>,
}

/// The context of the reconciles of a replica.
struct Context {
    name: &'static str,
    /// The number of maps that were reconciled since it was printed.
    reconciled: AtomicUsize,
}

async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let data = BTreeMap::from([("replica".to_owned(), context.name.to_owned())]);
    if let Some(permit) = Permit::current()
        && map.data.as_ref() != Some(&data)
    {
        let namespace = map.namespace().unwrap_or_default();
        let maps = Api::<ConfigMap>::namespaced(permit.client(), &namespace);
        // The map contains the version that was read, so the server refuses it if another replica
        // has written the map since.
        let written = ConfigMap { data: Some(data), ..ConfigMap::clone(&map) };
        maps.replace(&map.name_any(), &PostParams::default(), &written).await?;
        // Relaxed: the number guards no other data.
        context.reconciled.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Action::await_change())
}

/// The cluster, and the time when the example began.
#[derive(Clone)]
struct Stage {
    client: Client,
    namespace: String,
    began: Instant,
}

impl Stage {
    fn print(&self, line: impl Display) {
        println!("{:5.1} s  {line}", self.began.elapsed().as_secs_f32());
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates the Leases, which are free at once because they have no `spec`, and the config maps.
    async fn set_up(&self) -> Result<(), kube::Error> {
        let metadata = |name| ObjectMeta {
            name: Some(name),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), GROUP.to_owned())])),
            ..ObjectMeta::default()
        };
        let shards = (0..SHARDS).map(|shard| format!("{GROUP}-shard-{shard:03}"));
        for name in once(GROUP.to_owned()).chain(shards) {
            let lease = Lease { metadata: metadata(name), ..Lease::default() };
            self.leases().create(&PostParams::default(), &lease).await?;
        }
        for name in (0..MAPS).map(|number| format!("{GROUP}-{number}")) {
            let map = ConfigMap { metadata: metadata(name), ..ConfigMap::default() };
            self.maps().create(&PostParams::default(), &map).await?;
        }
        Ok(())
    }

    async fn clean_up(&self) -> Result<(), kube::Error> {
        let (delete, all) = (DeleteParams::default(), ListParams::default().labels(&selector()));
        self.leases().delete_collection(&delete, &all).await?;
        self.maps().delete_collection(&delete, &all).await?;
        Ok(())
    }

    fn start(&self, name: &'static str) -> Result<Replica, BuildError> {
        let group = ShardGroup::builder(self.client.clone(), &self.namespace, GROUP)
            .identity(name)
            .shards(SHARDS)
            .lease_duration(Duration::from_secs(3))
            .renew_deadline(Duration::from_secs(2))
            .retry_period(Duration::from_millis(400))
            .drain_timeout(Duration::from_secs(1))
            .settle(Duration::from_secs(1))
            // A program has one group. This one has three replicas in its process.
            .beside_others()
            .build()?;
        self.print(format_args!("{name} starts"));
        let context = Arc::new(Context { name, reconciled: AtomicUsize::new(0) });
        let controller =
            Controller::new(self.maps(), watcher::Config::default().labels(&selector()))
                .with_config(ControllerConfig::default().concurrency(8))
                .sharded(&group)
                .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), context.clone())
                .for_each(|_| ready(()));
        let (stop, stopped) = oneshot::channel::<()>();
        let stage = self.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                ended = group.run_until(stopped.map(drop)) => ended,
                _ = async { tokio::join!(controller, stage.report(&group, &context)) } => Ok(()),
            }
        });
        Ok(Replica { name, task, stop })
    }

    /// Prints the number of owned shards each time that it has changed.
    async fn report(&self, group: &ShardGroup, context: &Context) {
        let mut owned = group.owned();
        while owned.changed().await.is_ok() {
            // A hand-over moves several shards one by one, and the reconciles follow.
            sleep(Duration::from_millis(500)).await;
            let shards = owned.borrow_and_update().len();
            // Relaxed: the number guards no other data.
            let maps = context.reconciled.swap(0, Ordering::Relaxed);
            let name = context.name;
            self.print(format_args!("{name} owns {shards:2} shards, reconciled {maps:3} maps"));
        }
    }

    /// Ends a replica without a release of its shards.
    async fn kill(&self, replica: Replica) {
        self.print(format_args!("{} is killed", replica.name));
        replica.task.abort();
        // An error says that the task was aborted.
        let _ = replica.task.await;
    }

    /// Asks a replica to stop, and waits until it has released its shards.
    async fn stop(&self, replica: Replica) -> Result<(), Box<dyn Error>> {
        let asked = Instant::now();
        // Fails if the replica has ended.
        let _ = replica.stop.send(());
        replica.task.await??;
        let millis = asked.elapsed().as_millis();
        self.print(format_args!("{} has stopped, within {millis} ms", replica.name));
        Ok(())
    }
}

fn selector() -> String {
    format!("{LABEL}={GROUP}")
}

pub(crate) async fn run(args: Args, simulated: &ApiServer) -> Result<(), Box<dyn Error>> {
    let client = args.access.client().await?.unwrap_or_else(|| simulated.client());
    let mut stage = Stage { client, namespace: args.namespace, began: Instant::now() };
    // An example that was interrupted has left its objects.
    stage.clean_up().await?;
    stage.set_up().await?;

    stage.began = Instant::now();
    let end = stage.began + Duration::from_secs(args.seconds);
    let pause = |time| sleep_until(end.min(Instant::now() + time));
    let mut replicas = VecDeque::new();
    for name in ["ann", "bob", "eve"] {
        replicas.push_back(stage.start(name)?);
    }
    for is_killed in [true, false].into_iter().cycle() {
        pause(Duration::from_secs(4)).await;
        if Instant::now() >= end {
            break;
        }
        let Some(replica) = replicas.pop_front() else { break };
        let name = replica.name;
        if is_killed {
            stage.kill(replica).await;
        } else {
            stage.stop(replica).await?;
        }
        pause(Duration::from_secs(5)).await;
        replicas.push_back(stage.start(name)?);
    }
    for replica in replicas {
        stage.stop(replica).await?;
    }

    let maps = stage.maps().list(&ListParams::default().labels(&selector())).await?;
    let missed = maps.iter().filter(|map| map.data.is_none()).count();
    stage.clean_up().await?;
    if missed > 0 {
        return Err(format!("{missed} config maps were never reconciled").into());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let simulated = simulated();
    tokio::select! {
        ended = run(Args::parse(), &simulated) => ended,
        stopped = signal::stopped() => Ok(stopped?),
    }
}
