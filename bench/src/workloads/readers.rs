//! The workload `readers`: the time of a get of a random key, in an idle store, and during
//! back-to-back relists. Each of these relists is drained before the next one begins, and only gets
//! that start during a relist are counted then.
//!
//! Each get is measured separately, so the figures of every engine include two readings of the
//! clock (about 50 ns). The results are dropped outside the measured time, because Go has no such
//! cost.

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
use crate::data::{ListPlan, Source, build, uniform_key};
use crate::engines::{Counts, StoreEngine};
use crate::names::Workload;
use crate::protocol::{ChildArgs, output};

/// Numbers of reading threads.
const READERS: [usize; 2] = [1, 4];
/// The number by which `--seconds` is divided to get the time for which an idle store is read.
const IDLE_DIVISOR: u32 = 4;
/// The limit for the time of the relists, as a multiple of `--seconds`, if no get has been counted
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
    let objects = args.objects;
    output::progress("building lists")?;
    let built = build(source, &ListPlan::same(objects));
    let keys: Vec<_> =
        (0..objects).map(|draw| engine.key(&built[uniform_key(draw, objects)])).collect();
    let lists = [E::List::from(&built), E::List::from(&build(source, &ListPlan::same(objects)))];
    drop(built);
    let mut counts = relist(engine, lists[0].clone());
    for readers in READERS {
        for prefix in ["idle-", ""] {
            let variant = format!("{prefix}{readers}-thread-");
            output::progress(format!("readers {variant}"))?;
            let state = ReadingState::new(args.settings.length * MAX_READING);
            let memory = MemoryMark::set(args);
            let (relists, (took, misses)) = thread::scope(|scope| {
                let reader = |number| {
                    let (keys, state) = (&keys, &state);
                    scope.spawn(move || read(engine, keys, number * objects / readers, state))
                };
                let threads: Vec<_> = (0..readers).map(reader).collect();
                let relists = if prefix.is_empty() {
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
                let mut gets = (Latencies::new(), 0);
                for thread in threads {
                    let (took, misses) = unwrap_join(thread.join());
                    gets.0 += &took;
                    gets.1 += misses;
                }
                (relists, gets)
            });
            let mut extra = memory.fields();
            if misses > 0 {
                return Err(format!("readers {variant}: {misses} gets missed a known key").into());
            }
            let expected = expected::<S::Object, E>(Workload::Relist, objects);
            for relist in &relists {
                expect(format_args!("readers {variant}"), *relist, expected)?;
            }
            if took.len() == 0 {
                return Err(
                    "readers: no get began in time: pass more --seconds or --objects".into()
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
            // With more threads than cores, the longest get belongs to a thread that was not
            // scheduled.
            let quantiles =
                if readers == 1 { &[P50, P99_9, P99_99, MAX][..] } else { &[P50, P99_9, P99_99] };
            let rows = took.rows(Workload::Readers, &variant, quantiles, &extra);
            output::rows(rows)?;
        }
    }
    Ok(())
}

/// The state that the readers and the main thread share.
struct ReadingState {
    /// Whether a get that starts now is included in the figures.
    counting: AtomicBool,
    /// Whether at least one get has been counted.
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

/// Gets the keys one after another, over and over, beginning with key number `first`. The caller
/// has drawn the keys at random. Ends when the main thread stops the readers, or at the deadline
/// during a relist. Returns the times of the gets that count, and the number of gets that found no
/// object.
fn read<T, E: StoreEngine<T>>(
    engine: &E,
    keys: &[E::Key],
    first: usize,
    state: &ReadingState,
) -> (Latencies, usize) {
    let (mut took, mut misses) = (Latencies::new(), 0);
    let mut has_reported = false;
    for key in keys.iter().cycle().skip(first) {
        if state.stop.load(Ordering::Relaxed) {
            break;
        }
        let counts = state.counting.load(Ordering::Relaxed);
        let began = Instant::now();
        let found = black_box(engine.get(black_box(key)));
        let elapsed = began.elapsed();
        if counts {
            took.record(elapsed);
            if !has_reported {
                state.has_counted.store(true, Ordering::Relaxed);
                has_reported = true;
            }
        }
        misses += usize::from(found.is_none());
        if counts && has_reported && began > state.deadline {
            state.gave_up.store(true, Ordering::Relaxed);
            break;
        }
    }
    (took, misses)
}

/// Relists back to back for `length`, at least once, and longer if no get has been counted yet.
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
