//! Where the time of a list goes: a body of some hundred megabytes, which is in memory already, cut into its items, decoded whole
//! and without managed fields, and listed once more when nothing has changed.
//!
//!     cargo run --release -p deltafifo-bench --features peers --example decode
//!
//! The pods are those of a real list (`bench/data/pods.json.gz`), several times under other names. Each way is a process of its own.

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::fs;
use std::io::Read;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_bench::workloads::MemoryMark;
use deltafifo_informer::lister_watcher::{ListRequest, Listed, ListerWatcher};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, Reflector};
use flate2::read::GzDecoder;
use futures_util::future::{self, BoxFuture};
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure where the time of a list goes.
#[derive(Parser)]
struct Args {
    /// How many times the pods of the file are there
    #[arg(long, default_value_t = 12)]
    copies: usize,
    /// How many times each way is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only this way, in this process
    #[arg(long)]
    way: Option<Way>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Way {
    /// Cut into items, none of which is decoded
    Cut,
    /// Decoded, queued, stored
    Whole,
    /// The same without managed fields
    Without,
    /// Listed once more, when nothing has changed
    Unchanged,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if let Some(way) = args.way {
        return measure(way, args.copies);
    }
    for round in 0..args.rounds {
        println!("round {}", round + 1);
        for way in Way::value_variants() {
            let name = way.to_possible_value().ok_or("a way has a name")?;
            let arguments = ["--copies", &args.copies.to_string(), "--way", name.get_name()];
            let ended = Command::new(env::current_exe()?).args(arguments).status()?;
            if !ended.success() {
                return Err(format!("{}: {ended}", name.get_name()).into());
            }
        }
    }
    Ok(())
}

/// The time, and that which the process has computed for.
#[derive(Clone, Copy)]
struct Clock {
    wall: Instant,
    cpu: Duration,
}

impl Clock {
    fn now() -> Self {
        // Hundredths of a second, of which the thirteenth and fourteenth field behind the program's name are user's and system's.
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        Self { wall: Instant::now(), cpu: Duration::from_millis(10 * ticks) }
    }
}

#[tokio::main]
async fn measure(way: Way, copies: usize) -> Result<(), Box<dyn Error>> {
    let items = items(copies)?;
    let bytes = items.len();
    let begun: Arc<Mutex<Vec<Clock>>> = Arc::default();
    let client = client(items, begun.clone());
    let source = KubeListerWatcher::new::<Pod>(client, &(), None);
    let mark = MemoryMark::start();
    let count = if way == Way::Cut { cut(source).await? } else { reflected(source, way).await? };
    let end = Clock::now();
    let begun = *begun.lock().last().ok_or("a list was asked for")?;
    let (wall, cpu) = (end.wall - begun.wall, end.cpu.saturating_sub(begun.cpu));
    let name = way.to_possible_value().ok_or("a way has a name")?;
    println!(
        "{:<10} {count} pods of {} MB: {:.2} s, {:.2} s of CPU, {} MiB more at the peak",
        name.get_name(),
        bytes / 1_000_000,
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        mark.peak_over_start() >> 20,
    );
    Ok(())
}

async fn cut(source: KubeListerWatcher) -> Result<usize, Box<dyn Error>> {
    let mut parts = source.list(ListRequest::default()).await?;
    let mut count = 0;
    while let Some(part) = parts.try_next().await? {
        if let Listed::Items(items) = part {
            count += items.len();
        }
    }
    Ok(count)
}

async fn reflected(source: KubeListerWatcher, way: Way) -> Result<usize, Box<dyn Error>> {
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
    let fifo = Arc::new(DeltaFifo::over(store).skip_unchanged(true).track_applied(true).build());
    let mut reflector = Reflector::builder(source, fifo.clone()).watch_list(false);
    if way == Way::Without {
        reflector = reflector.without(&["metadata", "managedFields"]);
    }
    let reflector = reflector.build();
    let running = tokio::spawn(async move { reflector.run().await });
    let queue = fifo.clone();
    let applying = tokio::spawn(async move {
        while let Ok(mut item) = queue.pop_async().await {
            if let Err(error) = item.apply(|_: deltafifo::Change<'_, Pod>| ()) {
                eprintln!("{error}");
            }
        }
    });
    fifo.wait_for_resource_version_async(if way == Way::Unchanged { "2" } else { "1" }).await?;
    running.abort();
    applying.abort();
    Ok(fifo.store().list_keys().len())
}

/// The items of a list, as JSON with commas between.
fn items(copies: usize) -> Result<Bytes, Box<dyn Error>> {
    let mut list = String::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/pods.json.gz");
    GzDecoder::new(fs::File::open(path)?).read_to_string(&mut list)?;
    let mut list: Value = serde_json::from_str(&list)?;
    let pods = list["items"].as_array_mut().ok_or("the file is a list")?;
    let mut text = String::new();
    for copy in 0..copies {
        for pod in &mut *pods {
            let name = pod["metadata"]["name"].as_str().ok_or("a pod has a name")?;
            let original = name.split_once('~').map_or(name, |(original, _)| original);
            pod["metadata"]["name"] = format!("{original}~{copy}").into();
            if !text.is_empty() {
                text.push(',');
            }
            text += &pod.to_string();
        }
    }
    Ok(text.into())
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Of a server that has the body in memory. It refuses the first watch, and is silent in the second.
fn client(items: Bytes, begun: Arc<Mutex<Vec<Clock>>>) -> kube::Client {
    let watches = Mutex::new(0);
    let answer = move |request: Request<kube::client::Body>| -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        let (status, frames) = if request.uri().query().is_some_and(|query| query.contains("watch=")) {
            *watches.lock() += 1;
            if *watches.lock() == 1 {
                let expired = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired" });
                (StatusCode::GONE, stream::iter([Bytes::from(expired.to_string())]).boxed())
            } else {
                (StatusCode::OK, stream::pending().boxed())
            }
        } else {
            begun.lock().push(Clock::now());
            (StatusCode::OK, list(begun.lock().len(), &items))
        };
        let body = StreamBody::new(frames.map(|frame| Ok(Frame::data(frame))));
        let mut response = Response::new(BodyExt::boxed_unsync(body));
        *response.status_mut() = status;
        future::ready(Ok(response)).boxed()
    };
    kube::Client::new(tower::service_fn(answer), "default")
}

/// A list of that version, as a connection brings it.
fn list(version: usize, items: &Bytes) -> stream::BoxStream<'static, Bytes> {
    const FRAME: usize = 64 << 10;
    let head =
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":["#);
    let (items, frames) = (items.clone(), (0..items.len()).step_by(FRAME));
    let items = frames.map(move |from| items.slice(from..items.len().min(from + FRAME)));
    stream::iter([head.into()].into_iter().chain(items).chain(["]}".into()])).boxed()
}
