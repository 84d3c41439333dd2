//! The workload `workqueue`: the rate of keys through a work queue. Each key is added once and
//! taken once, and its processing is ended. The variants differ in which threads do this:
//!
//! * `turns`: each thread adds a key, takes one, and ends it, in turn. The queue is nearly empty,
//!   and no thread waits.
//! * `backlog`: each thread adds all its keys, and then takes and ends as many. The queue becomes
//!   as long as it can, as after an initial list, and no thread waits.
//! * `workers`: some threads add, and as many take, which wait while the queue is empty: like
//!   handlers and reconcilers.
//!
//! Taking a key is a future. Each thread runs all its work as one future in a `block_on` of its
//! own, like a task of tokio. If a queue blocks the thread instead, its future is ready at the
//! first poll.

use std::iter;
use std::time::Duration;

use deltafifo_informer::workqueue::WorkQueue;
use tokio::runtime::{Builder, Handle};

use super::fill::ChildError;
use super::memory::MemoryMark;
use super::threads::run_threads;
use crate::data::{Source, with_key};
use crate::engines::workqueue::{Key, WorkEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, Row, output};

/// The numbers of threads that add keys: each division of the work is measured with each number. In
/// `workers`, as many threads take keys.
const THREADS: [usize; 3] = [1, 4, 8];

/// The division of the work between threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Turns,
    Backlog,
    Workers,
}

impl Shape {
    const ALL: [Self; 3] = [Self::Turns, Self::Backlog, Self::Workers];

    fn variant(self, threads: usize) -> String {
        match self {
            Self::Turns => format!("turns-{threads}"),
            Self::Backlog => format!("backlog-{threads}"),
            Self::Workers => format!("workers-{threads}x{threads}"),
        }
    }
}

/// Creates the work queue of this project. Needs a runtime, which [`run`] enters.
pub(super) fn ours() -> WorkQueue<Key> {
    WorkQueue::builder().build().expect("the workload has a runtime")
}

/// Runs all variants, each on a queue of its own, if the workload was requested.
pub(super) fn run<S: Source, Q: WorkEngine>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn() -> Q,
) -> Result<(), ChildError> {
    if !args.includes(Workload::WorkQueue) {
        return Ok(());
    }
    output::progress("building keys")?;
    let meta = S::Meta::default();
    let key = |index| with_key(&meta, &source.make(index, None), |key| Key::from(key));
    let keys: Vec<Key> = (0..args.objects).map(key).collect();
    let mut all = KeyDigest::default();
    for key in &keys {
        all.record(key);
    }
    // Runs the task of a queue that has timers. The measured work runs on other threads.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    let _entered = runtime.enter();
    for shape in Shape::ALL {
        for threads in THREADS {
            let variant = shape.variant(threads);
            output::progress(format!("workqueue {variant}"))?;
            let queue = new();
            let shares = (0..threads)
                .map(|thread| keys.iter().skip(thread).step_by(threads).cloned().collect());
            let shares = shares.collect();

            let memory = MemoryMark::set(args);
            let (elapsed, taken) = drive(&queue, shares, shape, runtime.handle());

            let mut extra = memory.fields();
            if taken != all {
                return Err(format!("workqueue {variant}: {taken:?}, expected {all:?}").into());
            }
            extra.insert("taken".into(), taken.keys.into());
            extra.insert("taken_digest".into(), format!("{:016x}", taken.last_bytes).into());
            let row = Row::rate(Workload::WorkQueue, &variant, keys.len(), elapsed, extra);
            output::rows([row])?;
        }
    }
    Ok(())
}

/// A digest of keys: their number, and the sum of their last eight bytes, which differ between
/// keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KeyDigest {
    keys: usize,
    last_bytes: u64,
}

impl KeyDigest {
    fn record(&mut self, key: &str) {
        self.keys += 1;
        let end = key.as_bytes().last_chunk().copied().unwrap_or_default();
        self.last_bytes = self.last_bytes.wrapping_add(u64::from_le_bytes(end));
    }
}

/// Runs a variant until all keys are taken and done. Returns the time, and the digest of the taken
/// keys.
fn drive<Q: WorkEngine>(
    queue: &Q,
    shares: Vec<Vec<Key>>,
    shape: Shape,
    runtime: &Handle,
) -> (Duration, KeyDigest) {
    let workers = if shape == Shape::Workers { shares.len() } else { 0 };
    let worker = || runtime.block_on(take_all(queue));
    let adders = shares.into_iter().map(|keys| {
        move || match shape {
            Shape::Turns => runtime.block_on(add_and_take(queue, keys, 1)),
            Shape::Backlog => runtime.block_on(add_and_take(queue, keys, usize::MAX)),
            Shape::Workers => {
                for key in keys {
                    queue.add(key);
                }
                KeyDigest::default()
            }
        }
    });
    let workers = iter::repeat_n(worker, workers);
    let (elapsed, by_adders, by_workers) = run_threads(adders, workers, || queue.shut_down());
    let sum = |one: KeyDigest, other: KeyDigest| KeyDigest {
        keys: one.keys + other.keys,
        last_bytes: one.last_bytes.wrapping_add(other.last_bytes),
    };
    (elapsed, by_adders.into_iter().chain(by_workers).fold(KeyDigest::default(), sum))
}

/// Adds `at_once` keys and takes as many, until all keys are added. A take always finds a key,
/// because no thread has taken more keys than it has added. Returns the digest of the taken keys.
async fn add_and_take<Q: WorkEngine>(queue: &Q, keys: Vec<Key>, at_once: usize) -> KeyDigest {
    let mut taken = KeyDigest::default();
    let mut keys = keys.into_iter();
    loop {
        let mut added = 0;
        for key in keys.by_ref().take(at_once) {
            queue.add(key);
            added += 1;
        }
        if added == 0 {
            return taken;
        }
        for _ in 0..added {
            queue.take(|key| taken.record(key)).await;
        }
    }
}

/// Takes keys until the queue is shut down and empty. Returns their digest.
async fn take_all<Q: WorkEngine>(queue: &Q) -> KeyDigest {
    let mut taken = KeyDigest::default();
    while queue.take(|key| taken.record(key)).await {}
    taken
}
