//! Measures the first reconciles of a controller: the time until each pod was reconciled once, and
//! the memory of the process.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --features peers --example controllers -- --store compact
//! ```
//!
//! The pods are those of the workload `cache`, but each name ends in the pod's number, and the test
//! kit's server sets uids, versions and times of creation. The server runs in this process and
//! makes each pod when it sends the pod, so its CPU time is part of `cpu_seconds`. Afterwards the
//! example reads the list once more without decoding it, which takes `server_cpu_seconds`.
//!
//! `peak_bytes` is the peak of the whole process until it is at rest: compact pods were packed
//! again after the list, and mimalloc has returned free pages.

use std::convert::Infallible;
use std::error::Error;
use std::hint::black_box;
use std::num::NonZero;
use std::path::Path;
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
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller as kubes;
use kube::{Api, Client};
use mimalloc::MiMalloc;
use serde_json::json;
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
/// The longest time until all pods are reconciled. A measurement that takes longer fails.
const LIMIT: Duration = Duration::from_secs(20 * 60);

type Failure = Box<dyn Error + Send + Sync>;

/// Measure the first reconciles of a controller.
#[derive(Parser)]
struct Args {
    /// The number of pods
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// The number of pods of each Kubernetes workload
    #[arg(long, default_value = "20")]
    replicas: NonZero<usize>,
    /// The controller, and the form of the pods in its store
    #[arg(long, value_enum, default_value_t = Engine::Compact)]
    store: Engine,
    /// The largest number of reconciles at a time
    #[arg(long, default_value_t = 8)]
    workers: u16,
    /// Keep compact pods decoded, up to this number of bytes, and time gets of hot pods
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

/// The pods that were reconciled, by number.
struct Reconciled {
    pods: Vec<AtomicBool>,
    left: AtomicUsize,
    all: Notify,
}

impl Reconciled {
    fn add(&self, pod: &Pod) {
        black_box(pod.spec.as_ref().map(|spec| spec.containers.len()));
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let number = name.rsplit('-').next().and_then(|number| number.parse::<usize>().ok());
        let reconciled = number.and_then(|number| self.pods.get(number));
        // Relaxed: counts.
        if reconciled.is_some_and(|reconciled| !reconciled.swap(true, Ordering::Relaxed))
            && self.left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.all.notify_one();
        }
    }

    /// Waits until all pods were reconciled, and prints the progress. `polling` is the task that
    /// polls the controller.
    async fn wait(&self, polling: &mut JoinHandle<()>) -> Result<(), Failure> {
        let (began, mut progress) = (Instant::now(), interval(Duration::from_secs(5)));
        while began.elapsed() < LIMIT {
            tokio::select! {
                () = self.all.notified() => return Ok(()),
                _ended = &mut *polling => return Err("the controller has ended".into()),
                _ = progress.tick() => {}
            }
            let done = self.pods.len() - self.left.load(Ordering::Relaxed);
            eprintln!("{done} pods after {:.0?}, {} MiB", began.elapsed(), resident() >> 20);
        }
        Err(format!("not all pods were reconciled within {} s", LIMIT.as_secs()).into())
    }
}

/// Polls a controller in a task. Its reconciler adds each pod to `$reconciled`. This is a macro,
/// because it serves both runtimes, whose types have equal names.
macro_rules! start {
    ($runtime:ident, $controller:expr, $args:expr, $reconciled:expr) => {{
        let reconcile = |pod: Arc<Pod>, reconciled: Arc<Reconciled>| async move {
            reconciled.add(&pod);
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
    runtime.block_on(measure(&args))
}

#[expect(clippy::cast_precision_loss, reason = "the number of pods is far below 2^53")]
async fn measure(args: &Args) -> Result<(), Failure> {
    let pods = Cluster::read(Path::new(MODELS))?.numbered_pods(args.replicas.get());
    let server = ApiServer::builder().resource(Resource::pods()).frame_size(64 << 10).build();
    server.generate(&Resource::pods(), args.objects as u64, pods)?;
    let reconciled = Arc::new(Reconciled {
        pods: (0..args.objects).map(|_| AtomicBool::new(false)).collect(),
        left: AtomicUsize::new(args.objects),
        all: Notify::new(),
    });
    let cpu_since = |before| cpu().map(|now| now.saturating_sub(before).as_secs_f64());
    let (began, cpu_before) = (Instant::now(), cpu()?);
    let (pods, config) = (Api::<Pod>::all(server.client()), watcher::Config::default());
    let (mut polling, compact) = match args.store {
        Engine::Compact => {
            let controller = compact(pods, args.decoded_cache)?;
            let store = controller.store();
            (start!(ours, controller, args, reconciled), Some(store))
        }
        Engine::Typed => (start!(ours, Controller::new(pods, config), args, reconciled), None),
        Engine::Kube => {
            (start!(kubes, kubes::Controller::new(pods, config), args, reconciled), None)
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
    let hot_get = args.decoded_cache.and(compact).map(|store| hot_get(&store)).transpose()?;
    polling.abort();
    let cpu_before = cpu()?;
    read_list(server.client()).await?;
    let (objects, rate) = (args.objects, args.objects as f64 / seconds);
    let engine = args.store.to_possible_value().ok_or("each engine has a name")?;
    let mib = [peak, rest].map(|bytes| bytes >> 20);
    eprintln!("{objects} pods after {seconds:.2} s, {rate:.0}/s; peak and rest: {mib:?} MiB");
    let row = json!({
        "engine": engine.get_name(), "objects": objects, "replicas": args.replicas,
        "workers": args.workers, "decoded_cache": args.decoded_cache, "seconds": seconds,
        "reconciles_per_second": rate, "peak_bytes": peak, "rest_bytes": rest,
        "cpu_seconds": cpu_seconds, "cpu_seconds_to_rest": cpu_to_rest,
        "server_cpu_seconds": cpu_since(cpu_before)?, "hot_get_seconds": hot_get,
    });
    println!("{row}");
    Ok(())
}

/// Returns a controller of compact pods. If a cache of decoded pods is requested, the controller
/// uses an informer, which this function runs in a task.
fn compact(pods: Api<Pod>, cache: Option<usize>) -> Result<Controller<Compact<Pod>>, Failure> {
    let Some(bytes) = cache else {
        return Ok(Controller::new(pods, watcher::Config::default()).compact());
    };
    let source = KubeListerWatcher::new::<Pod>(pods.into_client(), &(), None);
    let informer = SharedInformer::<Compact<Pod>>::builder(source)
        .reflector(move |pods| {
            pods.watch_list(false).compactor(Compactor::builder().decoded_cache(bytes))
        })
        .on_error(|error| eprintln!("{error}"))
        .build()?;
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    Ok(Controller::from_informer(&informer))
}

/// Returns the median time of 100,000 gets of 100 pods, in seconds.
fn hot_get(store: &Store<Compact<Pod>>) -> Result<f64, Failure> {
    let keys = store.reader().list_keys().into_iter().take(100);
    let hot = keys.filter_map(|key| {
        let (namespace, name) = key.split_once('/')?;
        Some(ObjectRef::<Pod>::new(name).within(namespace))
    });
    let mut times = Vec::new();
    for pod in hot.collect::<Vec<_>>().iter().cycle().take(100_000) {
        let began = Instant::now();
        black_box(store.get(pod)).ok_or("a pod is not in the store, or does not decode")?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).ok_or("there are no pods")?.as_secs_f64())
}

/// Reads the list of all pods and drops it.
async fn read_list(client: Client) -> Result<(), Failure> {
    let request = http::Request::get("/api/v1/pods").body(kube::client::Body::empty())?;
    let mut body = client.send(request).await?.into_body();
    while body.frame().await.transpose()?.is_some() {}
    Ok(())
}
