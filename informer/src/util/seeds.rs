//! The seeds of a simulation, whose histories run on all cores.

use std::array;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Instant;

/// The sums of the counts of all histories.
pub(crate) struct Total<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) seeds: u64,
    pub(crate) seconds: u64,
}

/// Returns the number in an environment variable.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} must be a number: {value}")))
}

/// Calls `run` with the first `SEEDS` seeds, by default 20, or with `SEED` only. `run` returns the
/// counts of the history of a seed.
pub(crate) fn on_all_cores<const N: usize>(run: impl Fn(u64) -> [u64; N] + Sync) -> Total<N> {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(20),
    };
    let began = Instant::now();
    let add =
        |sums: [u64; N], counts: [u64; N]| array::from_fn(|index| sums[index] + counts[index]);
    // Each thread takes the next seed.
    let next = AtomicU64::new(seeds.start);
    let worker = || {
        let mut sums = [0; N];
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return sums;
            }
            sums = add(sums, run(seed));
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get);
    let counts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .fold([0; N], |sums, worker| add(sums, worker.join().expect("no history fails")))
    });
    Total { counts, seeds: seeds.end - seeds.start, seconds: began.elapsed().as_secs() }
}

/// Prints the history of a seed if it violates a rule, or if it is the only one.
///
/// # Panics
/// If the history violates a rule.
pub(crate) fn check(seed: u64, history: &str, violations: &[String]) {
    if !violations.is_empty() || number("SEED").is_some() {
        println!("{history}");
    }
    assert!(violations.is_empty(), "rerun with SEED={seed}: {}", violations.join("; "));
}
