//! The workload `cache`: the memory that the objects of a cluster take in an informer, and the
//! time to list and to read them. The engine lists the first of two LIST responses in files, and
//! then relists the second, in which one object in a hundred has changed.
//!
//! - `rest-bytes`: the growth of the resident memory that no file backs, after the initial list and
//!   the background work that follows it. `peak-bytes`: the growth of all resident memory to its
//!   peak. Both are divided by the number of objects.
//! - `first-list-cpu`, `relist-cpu`: CPU time of the process, with the kernel's, from the start of
//!   the list until the engine has nothing left to do.
//! - `get`: the median time from a get of a random key until the whole decoded object can be read.
//! - `get-header`: the median time from a get of a random key until the name, uid, version and a
//!   label are read.
//! - `decode`: the median time in which serde decodes one of these objects from its JSON. Only the
//!   engine `deltafifo` has this figure.
//!
//! The idle threads of tokio's blocking pool end after 50 ms (`KEEP_ALIVE`), because mimalloc keeps
//! free pages for each thread.

mod kube_rs;
mod ours;
mod packed;
mod server;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::fill::ChildError;
use super::memory::MemoryMark;
use crate::data::splitmix64;
use crate::digest::Digest;
use crate::names::{EngineName, Workload};
use crate::process::{anonymous, cpu};
use crate::protocol::{ChildArgs, Line, Row, output};
use kube_rs::KubeRsCache;
use ours::OursCache;
use packed::{Cbor, Gzip, PackedStore};
use server::ListServer;

/// The largest number of gets, and of decodings, that are timed. If there are fewer objects, their
/// number is the limit.
const GETS: usize = 20_000;
/// The time after which an engine that has not completed a list has failed.
const LIST_LIMIT: Duration = Duration::from_secs(300);
/// The time for which idle threads are kept.
const KEEP_ALIVE: Duration = Duration::from_millis(50);
/// The time after which mimalloc has returned its free pages to the system.
const PURGED: Duration = Duration::from_millis(1500);

/// A store that follows a [`ListServer`].
trait CacheEngine {
    /// Waits until list number `list`, 1 or 2, is in the store and the engine has nothing left to
    /// do.
    async fn listed(&self, list: u64) -> Result<(), ChildError>;

    /// Returns the keys of all objects.
    fn keys(&self) -> Vec<String>;

    /// Reads a whole object. Returns whether the store has it.
    fn get(&self, key: &str) -> bool;

    /// Reads parts of an object's metadata. Returns whether the store has the object.
    fn get_header(&self, key: &str) -> bool;

    /// Returns the digest of the store.
    fn digest(&self) -> Digest;

    /// Returns figures that only this engine has, after the initial list.
    fn extra(&self) -> Map<String, Value> {
        Map::new()
    }
}

/// Runs the workload on the engine of `args`.
pub(super) fn run(args: &ChildArgs) -> Result<(), ChildError> {
    let lists = [&args.settings.input, &args.settings.second_list];
    let [Some(first), Some(second)] = lists.map(Option::as_ref) else {
        return Err("the workload cache needs two lists".into());
    };
    let lists = [first.clone(), second.clone()];
    let runtime = Builder::new_multi_thread().enable_all().thread_keep_alive(KEEP_ALIVE).build()?;
    runtime.block_on(measure(args, lists))?;
    Ok(output::line(&Line::Done { version: args.engine.description() })?)
}

async fn measure(args: &ChildArgs, lists: [PathBuf; 2]) -> Result<(), ChildError> {
    let server = ListServer::new(lists);
    let usage = UsageAtStart::set(args)?;
    match args.engine {
        EngineName::DeltaFifo => {
            steps(args, &server, usage, OursCache::start(ours::typed(&server))?).await
        }
        EngineName::DeltaFifoWithout => {
            steps(args, &server, usage, OursCache::start(ours::without(&server))?).await
        }
        EngineName::DeltaFifoCompact => {
            steps(args, &server, usage, OursCache::start(ours::compact(&server, false))?).await
        }
        EngineName::DeltaFifoCompactValidated => {
            steps(args, &server, usage, OursCache::start(ours::compact(&server, true))?).await
        }
        EngineName::KubeWriter => steps(args, &server, usage, KubeRsCache::start(&server)).await,
        EngineName::Gzip => steps(args, &server, usage, PackedStore::<Gzip>::new(&server)?).await,
        EngineName::Cbor => steps(args, &server, usage, PackedStore::<Cbor>::new(&server)?).await,
        other => Err(format!("{other} is not an engine of this process").into()),
    }
}

/// The memory and the CPU time at the start of a measurement.
struct UsageAtStart {
    memory: MemoryMark,
    anonymous: u64,
    cpu: Duration,
}

impl UsageAtStart {
    fn set(args: &ChildArgs) -> Result<Self, ChildError> {
        Ok(Self { memory: MemoryMark::set(args), anonymous: anonymous(), cpu: cpu()? })
    }
}

async fn steps(
    args: &ChildArgs,
    server: &ListServer,
    usage: UsageAtStart,
    engine: impl CacheEngine,
) -> Result<(), ChildError> {
    output::progress("cache first list")?;
    complete(&engine, 1).await?;
    let initial_list = cpu()?.saturating_sub(usage.cpu);
    let peak = usage.memory.peak_over_start();
    end_threads().await;
    let rest = anonymous().saturating_sub(usage.anonymous);
    let keys = engine.keys();
    let objects = keys.len();
    let extra = engine.extra();

    output::progress("cache gets")?;
    let keys = sample(&keys);
    let get = median(&keys, |key| engine.get(key))?;
    let get_header = median(&keys, |key| engine.get_header(key))?;

    output::progress("cache relist")?;
    let before = cpu()?;
    server.relist();
    complete(&engine, 2).await?;
    let relist = cpu()?.saturating_sub(before);

    let mut rows = vec![
        row("rest-bytes", "B", per_object(rest, objects)),
        row("peak-bytes", "B", per_object(peak, objects)),
        row("first-list-cpu", "s", initial_list.as_secs_f64()),
        row("relist-cpu", "s", relist.as_secs_f64()),
        row("get", "s", get),
        row("get-header", "s", get_header),
    ];
    if args.engine == EngineName::DeltaFifo {
        rows.push(row("decode", "s", decode(server)?));
    }
    let digest = engine.digest();
    for row in &mut rows {
        row.extra.insert("store_len".into(), digest.len().into());
        row.extra.insert("store_digest".into(), digest.hex().into());
        row.extra.extend(extra.clone());
    }
    Ok(output::rows(rows)?)
}

/// Waits until the engine has completed a list.
async fn complete(engine: &impl CacheEngine, list: u64) -> Result<(), ChildError> {
    let late = || format!("list {list} was not complete after {} s", LIST_LIMIT.as_secs());
    timeout(LIST_LIMIT, engine.listed(list)).await.map_err(|_elapsed| late())?
}

fn row(variant: &str, unit: &str, value: f64) -> Row {
    Row::new(Workload::Cache, variant, unit, value)
}

#[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^53")]
fn per_object(bytes: u64, objects: usize) -> f64 {
    bytes as f64 / objects.max(1) as f64
}

/// Waits until idle threads have ended and mimalloc has returned their pages.
async fn end_threads() {
    for _ in 0..2 {
        sleep(PURGED).await;
        // The end of a thread makes mimalloc return its free pages.
        let _ended = std::thread::spawn(|| black_box(Vec::<u8>::with_capacity(64))).join();
    }
}

/// Returns at most [`GETS`] keys, drawn at random; a key may be drawn more than once.
fn sample(keys: &[String]) -> Vec<&str> {
    let mut random = 1;
    let mut next = || {
        random = splitmix64(random);
        usize::try_from(random % keys.len().max(1) as u64).unwrap_or_default()
    };
    (0..GETS.min(keys.len())).filter_map(|_| keys.get(next()).map(String::as_str)).collect()
}

/// Returns the median time of `work` for all inputs, in seconds. Returns an error if `work`
/// returns false, because the object is missing or does not decode.
fn median(inputs: &[impl AsRef<str>], work: impl Fn(&str) -> bool) -> Result<f64, ChildError> {
    let mut times = Vec::with_capacity(inputs.len());
    for input in inputs {
        let began = Instant::now();
        let done = black_box(work(input.as_ref()));
        times.push(began.elapsed());
        if !done {
            return Err("an object of the initial list is not there, or does not decode".into());
        }
    }
    times.sort_unstable();
    let middle = times.get(times.len() / 2).ok_or("the list is empty")?;
    Ok(middle.as_secs_f64())
}

/// Returns the median time in which serde decodes an object of the current list, in seconds.
fn decode(server: &ListServer) -> Result<f64, ChildError> {
    let objects = server.objects(GETS)?;
    let decode = |json: &str| black_box(serde_json::from_str::<Pod>(json)).is_ok();
    median(&objects, decode)
}
