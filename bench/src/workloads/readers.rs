//! The workload `readers`: the time of a get of a random key, in an idle store, and during
//! back-to-back relists. Each of these relists is drained before the next one begins, and only gets
//! that start during a relist are counted then. The variants `index-` look up the objects of a
//! random node in an index instead. No object may be missing, because no relist changes the node of
//! an object.
//!
//! Each read is measured separately, so the figures of every engine include two readings of the
//! clock (about 50 ns). The results are dropped outside the measured time, because Go has no such
//! cost.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::fill::{ChildError, relist};
use super::latency::{Latencies, MAX, P50, P99_9, P99_99};
use super::lists::expected;
use super::memory::MemoryMark;
use super::outcome::{add_outcome, expect};
use super::threads::unwrap_join;
use crate::data::{ListPlan, Source, build, node, uniform_key};
use crate::engines::{Counts, IndexEngine, StoreEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, output};

/// Numbers of reading threads.
const READERS: [usize; 2] = [1, 4];
/// The number by which `--seconds` is divided to get the time for which an idle store is read.
const IDLE_DIVISOR: u32 = 4;
/// The limit for the time of the relists, as a multiple of `--seconds`, if no read has been counted
/// yet: on a busy machine a reader may not be scheduled earlier.
const MAX_EXTENSION: u32 = 100;
/// The time after which the readers stop, even during a relist, as a multiple of `--seconds`. If
/// readers pass a waiting writer, a relist may never end, as in a `DashMap` that four threads read
/// without a pause.
const MAX_READING: u32 = 8;

/// Measures gets on one engine with each number of threads, in an idle store and during relists.
pub(super) fn run<S: Source, E: StoreEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    engine: &E,
) -> Result<(), ChildError> {
    output::progress("building lists")?;
    let list = build(source, &ListPlan::same(args.objects));
    let keys = random(list.len()).map(|at| engine.key(&list[at])).collect();
    let read = |key: &E::Key| timed(|| engine.get(key), Option::is_some);
    Reads { prefix: "", keys, read }.run(args, source, engine)
}

/// Measures look-ups in an index like [`run`], if the workload was requested. `new` creates an
/// engine with an index by node.
pub(super) fn run_index<S: Source, E: IndexEngine<S::Object>>(
    args: &ChildArgs,
    source: &S,
    new: impl Fn(S::Meta) -> E,
) -> Result<(), ChildError> {
    if !args.includes(Workload::Readers) {
        return Ok(());
    }
    output::progress("building lists")?;
    let meta = S::Meta::default();
    let mut counts = BTreeMap::<_, usize>::new();
    for object in build(source, &ListPlan::same(args.objects)) {
        *counts.entry(node(&meta, &*object)).or_default() += 1;
    }
    let nodes: Vec<_> = counts.into_iter().collect();
    let keys = random(nodes.len()).map(|at| nodes[at].clone()).collect();
    let engine = new(meta);
    let read = |(node, count): &(String, usize)| {
        timed(|| engine.by_node(node), |found| found.len() == *count)
    };
    Reads { prefix: "index-", keys, read }.run(args, source, &engine)
}

/// Returns random positions in a list of this length, as many as the list has elements.
fn random(length: usize) -> impl Iterator<Item = usize> {
    (0..length).map(move |draw| uniform_key(draw, length))
}

/// A read: when it began, how long it took, and whether it found all objects of its key.
struct Read {
    began: Instant,
    took: Duration,
    is_whole: bool,
}

fn timed<R>(read: impl FnOnce() -> R, is_whole: impl FnOnce(&R) -> bool) -> Read {
    let began = Instant::now();
    let found = black_box(read());
    let took = began.elapsed();
    Read { began, took, is_whole: is_whole(&found) }
}

/// The reads of a variant: the keys, in random order, and the function that reads a key.
struct Reads<K, F> {
    prefix: &'static str,
    keys: Vec<K>,
    read: F,
}

impl<K: Sync, F: Fn(&K) -> Read + Sync> Reads<K, F> {
    fn run<S: Source, E: StoreEngine<S::Object>>(
        &self,
        args: &ChildArgs,
        source: &S,
        engine: &E,
    ) -> Result<(), ChildError> {
        let build = || E::List::from(&build(source, &ListPlan::same(args.objects)));
        let lists = [build(), build()];
        let mut counts = relist(engine, lists[0].clone());
        for readers in READERS {
            for when in ["idle-", ""] {
                let variant = format!("{}{when}{readers}-thread-", self.prefix);
                output::progress(format!("readers {variant}"))?;
                let state = ReadingState::new(args.settings.length * MAX_READING);
                let memory = MemoryMark::set(args);
                let (relists, (took, misses)) = thread::scope(|scope| {
                    let reader = |number| {
                        let first = number * self.keys.len() / readers;
                        let state = &state;
                        scope.spawn(move || self.read(first, state))
                    };
                    let threads: Vec<_> = (0..readers).map(reader).collect();
                    let relists = if when.is_empty() {
                        keep_relisting(engine, &lists, args.settings.length, &state)
                    } else {
                        state.counting.store(true, Ordering::Relaxed);
                        let (start, length) = (Instant::now(), args.settings.length / IDLE_DIVISOR);
                        while state.continues(start, length) {
                            thread::sleep(length);
                        }
                        Vec::new()
                    };
                    state.stop.store(true, Ordering::Relaxed);
                    let mut reads = (Latencies::new(), 0);
                    for thread in threads {
                        let (took, misses) = unwrap_join(thread.join());
                        reads.0 += &took;
                        reads.1 += misses;
                    }
                    (relists, reads)
                });
                let mut extra = memory.fields();
                if misses > 0 {
                    return Err(
                        format!("readers {variant}: {misses} reads missed a known object").into()
                    );
                }
                let expected = expected::<S::Object, E>(Workload::Relist, args.objects);
                for relist in &relists {
                    expect(format_args!("readers {variant}"), *relist, expected)?;
                }
                if took.len() == 0 {
                    return Err(
                        "readers: no read began in time: pass more --seconds or --objects".into()
                    );
                }
                extra.insert("gets".into(), took.len().into());
                extra.insert("replaces".into(), relists.len().into());
                if state.gave_up.load(Ordering::Relaxed) {
                    extra.insert("relist_starved".into(), true.into());
                }
                // The number of relists depends on the engine; the counts of the last one do not.
                counts = relists.last().copied().unwrap_or(counts);
                add_outcome::<S>(counts, engine, &mut extra);
                extra.insert("misses".into(), misses.into());
                // With more threads than cores, the longest read belongs to a thread that was not
                // scheduled.
                let quantiles = if readers == 1 {
                    &[P50, P99_9, P99_99, MAX][..]
                } else {
                    &[P50, P99_9, P99_99]
                };
                output::rows(took.rows(Workload::Readers, &variant, quantiles, &extra))?;
            }
        }
        Ok(())
    }

    /// Reads the keys one after another, over and over, beginning with key number `first`. Ends
    /// when the main thread stops the readers, or at the deadline during a relist. Returns the
    /// times of the reads that count, and the number of reads that missed an object.
    fn read(&self, first: usize, state: &ReadingState) -> (Latencies, usize) {
        let (mut took, mut misses) = (Latencies::new(), 0);
        let mut has_reported = false;
        for key in self.keys.iter().cycle().skip(first) {
            if state.stop.load(Ordering::Relaxed) {
                break;
            }
            let counts = state.counting.load(Ordering::Relaxed);
            let read = (self.read)(black_box(key));
            if counts {
                took.record(read.took);
                if !has_reported {
                    state.has_counted.store(true, Ordering::Relaxed);
                    has_reported = true;
                }
            }
            misses += usize::from(!read.is_whole);
            if counts && has_reported && read.began > state.deadline {
                state.gave_up.store(true, Ordering::Relaxed);
                break;
            }
        }
        (took, misses)
    }
}

/// The state that the readers and the main thread share.
struct ReadingState {
    /// Whether a read that starts now is included in the figures.
    counting: AtomicBool,
    /// Whether at least one read has been counted.
    has_counted: AtomicBool,
    stop: AtomicBool,
    /// The time after which readers stop by themselves, even during a relist.
    deadline: Instant,
    /// Whether a reader stopped by itself, during a relist.
    gave_up: AtomicBool,
}

impl ReadingState {
    fn new(limit: Duration) -> Self {
        let [counting, has_counted, stop, gave_up] = [const { AtomicBool::new(false) }; 4];
        Self { counting, has_counted, stop, deadline: Instant::now() + limit, gave_up }
    }

    fn continues(&self, start: Instant, length: Duration) -> bool {
        let limit =
            if self.has_counted.load(Ordering::Relaxed) { length } else { length * MAX_EXTENSION };
        start.elapsed() < limit
    }
}

/// Relists back to back for `length`, at least once, and longer if no read has been counted yet.
/// Returns the counts of the handler for each relist.
fn keep_relisting<T, E: StoreEngine<T>>(
    engine: &E,
    lists: &[E::List; 2],
    length: Duration,
    state: &ReadingState,
) -> Vec<Counts> {
    let start = Instant::now();
    let mut relists = Vec::new();
    while relists.is_empty() || state.continues(start, length) {
        let list = lists[(relists.len() + 1) % 2].clone();
        state.counting.store(true, Ordering::Relaxed);
        let counts = relist(engine, list);
        state.counting.store(false, Ordering::Relaxed);
        relists.push(counts);
    }
    relists
}
