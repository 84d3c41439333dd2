//! Measures the first reconciles of a controller: the time until each object was reconciled once,
//! and the memory of the process. It fails if an object is reconciled twice.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --features peers --example controllers -- --store compact
//! ```
//!
//! The objects are the pods of the workload `cache`, but each name ends in the pod's number, and
//! the test kit's server sets uids, versions and times of creation. The server runs in this process
//! and makes each pod when it sends the pod, so its CPU time is part of `cpu_seconds`. Afterwards
//! the example reads the list once more without decoding it, which takes `server_cpu_seconds`.
//!
//! With `--server KUBECONFIG` the objects are the config maps in the namespace of that kubeconfig,
//! whose names end in their numbers as well. `ci/million.sh` creates them on a real server.
//!
//! `peak_bytes` is the peak of the whole process until it is at rest: compact objects were packed
//! again after the list, and mimalloc has returned free pages.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Debug;
use std::hint::black_box;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use deltafifo_bench::data::Cluster;
use deltafifo_bench::process::{cpu, peak, resident};
use deltafifo_informer::compact::{Compact, Compactor};
use deltafifo_informer::runtime::reflector::{ObjectRef, Store};
use deltafifo_informer::runtime::{Controller, controller as ours, watcher};
use deltafifo_informer::{KubeListerWatcher, SharedInformer, error_chain};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::runtime::controller as kubes;
use kube::{Api, Client};
use mimalloc::MiMalloc;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/pods-mixed.json.gz");
/// The time for which the runtime keeps an idle thread. mimalloc keeps free pages for each thread.
const KEEP_ALIVE: Duration = Duration::from_millis(50);
/// The time after which mimalloc has returned its free pages to the system.
const PURGED: Duration = Duration::from_millis(1500);
/// The longest time until all objects are reconciled. A measurement that takes longer fails.
const LIMIT: Duration = Duration::from_secs(20 * 60);

type Failure = Box<dyn Error + Send + Sync>;

/// Measure the first reconciles of a controller.
#[derive(Parser)]
struct Args {
    /// The number of objects
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// The number of pods of each Kubernetes workload
    #[arg(long, default_value = "20")]
    replicas: NonZero<usize>,
    /// Reconcile the config maps of a real server instead of pods
    #[arg(long, value_name = "KUBECONFIG", conflicts_with = "replicas")]
    server: Option<PathBuf>,
    /// The controller, and the form of the objects in its store
    #[arg(long, value_enum, default_value_t = Engine::Compact)]
    store: Engine,
    /// The largest number of reconciles at a time
    #[arg(long, default_value_t = 8)]
    workers: u16,
    /// Keep compact objects decoded, up to this number of bytes, and time gets of hot objects
    #[arg(long)]
    decoded_cache: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Engine {
    Compact,
    Typed,
    /// kube-rs' controller
    Kube,
}

/// An object that a controller can reconcile.
trait Object:
    kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The objects that were reconciled, by number.
struct Reconciled {
    objects: Vec<AtomicBool>,
    left: AtomicUsize,
    all: Notify,
    /// The number of reconciles.
    calls: AtomicUsize,
}

impl Reconciled {
    fn add(&self, object: &impl Object) {
        let name = black_box(object).meta().name.as_deref().unwrap_or_default();
        let number = name.rsplit('-').next().and_then(|number| number.parse::<usize>().ok());
        let Some(reconciled) = number.and_then(|number| self.objects.get(number)) else { return };
        // Relaxed: counts.
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !reconciled.swap(true, Ordering::Relaxed)
            && self.left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.all.notify_one();
        }
    }

    /// Waits until all objects were reconciled, and prints the progress. `polling` is the task that
    /// polls the controller.
    async fn wait(&self, polling: &mut JoinHandle<()>) -> Result<(), Failure> {
        let (began, mut progress) = (Instant::now(), interval(Duration::from_secs(5)));
        while began.elapsed() < LIMIT {
            tokio::select! {
                () = self.all.notified() => return Ok(()),
                _ended = &mut *polling => return Err("the controller has ended".into()),
                _ = progress.tick() => {}
            }
            let done = self.objects.len() - self.left.load(Ordering::Relaxed);
            eprintln!("{done} objects after {:.0?}, {} MiB", began.elapsed(), resident() >> 20);
        }
        Err(format!("not all objects were reconciled within {} s", LIMIT.as_secs()).into())
    }
}

/// Polls a controller of objects `K` in a task. Its reconciler adds each object to `$reconciled`.
/// This is a macro, because it serves both runtimes, whose types have equal names.
macro_rules! start {
    ($runtime:ident, $controller:expr, $args:expr, $reconciled:expr) => {{
        let reconcile = |object: Arc<K>, reconciled: Arc<Reconciled>| async move {
            reconciled.add(&*object);
            Ok::<_, Infallible>($runtime::Action::await_change())
        };
        let policy = |_, _: &Infallible, _| $runtime::Action::await_change();
        let config = $runtime::Config::default().concurrency($args.workers);
        let stream = $controller.with_config(config).run(reconcile, policy, $reconciled.clone());
        tokio::spawn(stream.for_each(|next| async move {
            if let Err(error) = next {
                eprintln!("{}", error_chain(&error));
            }
        }))
    }};
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    if args.decoded_cache.is_some() && args.store != Engine::Compact {
        return Err("--decoded-cache needs --store compact".into());
    }
    let runtime = Builder::new_multi_thread().enable_all().thread_keep_alive(KEEP_ALIVE).build()?;
    let row = match &args.server {
        Some(kubeconfig) => runtime.block_on(measure_server(&args, kubeconfig))?,
        None => runtime.block_on(measure_generated(&args))?,
    };
    println!("{row}");
    Ok(())
}

/// Measures a controller of the pods of a server in this process.
async fn measure_generated(args: &Args) -> Result<Value, Failure> {
    let pods = Cluster::read(Path::new(MODELS))?.numbered_pods(args.replicas.get());
    let server = ApiServer::builder().resource(Resource::pods()).frame_size(64 << 10).build();
    server.generate(&Resource::pods(), args.objects as u64, pods)?;
    let mut row = measure(args, Api::<Pod>::all(server.client())).await?;
    let cpu_before = cpu()?;
    read_list(server.client()).await?;
    row["server_cpu_seconds"] = json!(cpu_since(cpu_before)?);
    row["replicas"] = json!(args.replicas);
    Ok(row)
}

/// Measures a controller of the config maps in the namespace of a kubeconfig.
async fn measure_server(args: &Args, kubeconfig: &Path) -> Result<Value, Failure> {
    let client = deltafifo_bench::connect(kubeconfig).await?;
    measure(args, Api::<ConfigMap>::default_namespaced(client)).await
}

/// Runs a controller until it has reconciled all objects and is at rest. Returns the figures.
#[expect(clippy::cast_precision_loss, reason = "the number of objects is far below 2^53")]
async fn measure<K: Object>(args: &Args, api: Api<K>) -> Result<Value, Failure> {
    let reconciled = Arc::new(Reconciled {
        objects: (0..args.objects).map(|_| AtomicBool::new(false)).collect(),
        left: AtomicUsize::new(args.objects),
        all: Notify::new(),
        calls: AtomicUsize::new(0),
    });
    let (began, cpu_before) = (Instant::now(), cpu()?);
    let config = watcher::Config::default();
    let (mut polling, compact) = match args.store {
        Engine::Compact => {
            let controller = compact(api, args.decoded_cache)?;
            let store = controller.store();
            (start!(ours, controller, args, reconciled), Some(store))
        }
        Engine::Typed => (start!(ours, Controller::new(api, config), args, reconciled), None),
        Engine::Kube => {
            (start!(kubes, kubes::Controller::new(api, config), args, reconciled), None)
        }
    };
    reconciled.wait(&mut polling).await?;
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu_since(cpu_before)?);
    while compact.as_ref().is_some_and(|store| store.compact_stats().passes == 0) {
        sleep(PURGED).await;
    }
    for _ in 0..2 {
        sleep(PURGED).await;
        // The end of a thread makes mimalloc return its free pages.
        let _ended = std::thread::spawn(|| black_box(Vec::<u8>::with_capacity(64))).join();
    }
    let (peak, rest, cpu_to_rest) = (peak(), resident(), cpu_since(cpu_before)?);
    let calls = reconciled.calls.load(Ordering::Relaxed);
    let hot_get = args.decoded_cache.and(compact).map(|store| hot_get(&store)).transpose()?;
    polling.abort();
    let (objects, rate) = (args.objects, args.objects as f64 / seconds);
    if calls != objects {
        return Err(format!("{objects} objects were reconciled {calls} times").into());
    }
    let engine = args.store.to_possible_value().ok_or("each engine has a name")?;
    let mib = [peak, rest].map(|bytes| bytes >> 20);
    eprintln!("{objects} objects after {seconds:.2} s, {rate:.0}/s; peak and rest: {mib:?} MiB");
    Ok(json!({
        "engine": engine.get_name(), "objects": objects, "reconciled": calls,
        "workers": args.workers, "decoded_cache": args.decoded_cache, "seconds": seconds,
        "reconciles_per_second": rate, "peak_bytes": peak, "rest_bytes": rest,
        "cpu_seconds": cpu_seconds, "cpu_seconds_to_rest": cpu_to_rest, "hot_get_seconds": hot_get,
    }))
}

fn cpu_since(before: Duration) -> Result<f64, Failure> {
    Ok(cpu()?.saturating_sub(before).as_secs_f64())
}

/// Returns a controller of compact objects. If a cache of decoded objects is requested, the
/// controller uses an informer, which this function runs in a task.
fn compact<K: Object>(
    api: Api<K>,
    cache: Option<usize>,
) -> Result<Controller<Compact<K>>, Failure> {
    let Some(bytes) = cache else {
        return Ok(Controller::new(api, watcher::Config::default()).compact());
    };
    let source = KubeListerWatcher::of_api(api, &());
    let informer = SharedInformer::<Compact<K>>::builder(source)
        .reflector(move |builder| {
            builder.watch_list(false).compactor(Compactor::builder().decoded_cache(bytes))
        })
        .on_error(|error| eprintln!("{error}"))
        .build()?;
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    Ok(Controller::from_informer(&informer))
}

/// Returns the median time of 100,000 gets of 100 objects, in seconds.
fn hot_get<K: Object>(store: &Store<Compact<K>>) -> Result<f64, Failure> {
    let keys = store.reader().list_keys().into_iter().take(100);
    let hot = keys.filter_map(|key| {
        let (namespace, name) = key.split_once('/')?;
        Some(ObjectRef::<K>::new(name).within(namespace))
    });
    let mut times = Vec::new();
    for object in hot.collect::<Vec<_>>().iter().cycle().take(100_000) {
        let began = Instant::now();
        black_box(store.get(object)).ok_or("an object is not in the store, or does not decode")?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).ok_or("there are no objects")?.as_secs_f64())
}

/// Reads the list of all pods and drops it.
async fn read_list(client: Client) -> Result<(), Failure> {
    let request = http::Request::get("/api/v1/pods").body(kube::client::Body::empty())?;
    let mut body = client.send(request).await?.into_body();
    while body.frame().await.transpose()?.is_some() {}
    Ok(())
}
