//! The turns of a run, and their progress on standard error: a bar on a terminal, else one line a turn.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::Plan;
use crate::engines::EngineName;
use crate::protocol::Progress;
use crate::workloads::Workload;

/// One child.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    round: usize,
    rounds: usize,
    pub objects: usize,
    pub engine: EngineName,
    /// Whether it is about memory, which is measured in a process that has done nothing else.
    pub memory: bool,
}

impl Turn {
    /// All turns in their order: rounds outermost, engines next to each other.
    pub fn all(plan: &Plan) -> Vec<Self> {
        let mut all = Vec::new();
        for round in 1..=plan.rounds {
            for objects in plan.objects.iter().copied() {
                for engine in plan.engines.iter().copied() {
                    let turn = |memory| Self { round, rounds: plan.rounds, objects, engine, memory };
                    all.extend([false, true].map(turn).into_iter().filter(|turn| !turn.workloads(plan).is_empty()));
                }
            }
        }
        all
    }

    #[cfg(test)]
    pub fn of(engine: EngineName, memory: bool) -> Self {
        Self { round: 1, rounds: 1, objects: 10, engine, memory }
    }

    /// What is measured in it.
    pub fn workloads(&self, plan: &Plan) -> Vec<Workload> {
        let mine = |workload: &Workload| self.engine.can(*workload) && self.memory == (*workload == Workload::Memory);
        plan.workloads.iter().copied().filter(mine).collect()
    }

    /// What is the same in every round, and takes about as long.
    fn kind(&self) -> (&'static str, usize, bool) {
        (self.engine.name(), self.objects, self.memory)
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, rounds, objects, engine, memory } = self;
        let what = if *memory { ", memory" } else { "" };
        write!(f, "round {round}/{rounds}: {engine}, {objects} objects{what}")
    }
}

/// See the module.
pub(super) struct Turns {
    bar: ProgressBar,
    began: Instant,
    took: BTreeMap<(&'static str, usize, bool), Duration>,
}

impl Turns {
    pub fn new(all: &[Turn]) -> Self {
        let bar = ProgressBar::new(all.len() as u64);
        let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len}{prefix} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, began: Instant::now(), took: BTreeMap::new() }
    }

    /// `ahead` begins with the turn itself.
    pub fn begin(&mut self, turn: &Turn, ahead: &[Turn]) {
        self.began = Instant::now();
        let left = self.left(ahead).map_or_else(String::new, |left| format!(", about {} left", HumanDuration(left)));
        if self.bar.is_hidden() {
            eprintln!("{turn} ({:.0} s so far{left})", self.bar.elapsed().as_secs_f64());
        }
        self.bar.set_prefix(left);
    }

    pub fn at(&self, turn: &Turn, at: &Progress) {
        let of = if at.total > 0 { format!(" {}/{}", at.done, at.total) } else { String::new() };
        self.bar.set_message(format!("{turn}: {}{of}", at.what));
    }

    /// Says at once what the report says again.
    pub fn failed(&self, failed: &str) {
        self.bar.suspend(|| eprintln!("FAILED: {failed}; going on with the other turns"));
    }

    pub fn end(&mut self, turn: &Turn) {
        self.took.insert(turn.kind(), self.began.elapsed());
        self.bar.inc(1);
    }

    /// How long the turns ahead take, if each takes as long as in the last round. In the first nothing can be said: some
    /// engines take forty times as long as others.
    fn left(&self, ahead: &[Turn]) -> Option<Duration> {
        ahead.iter().map(|turn| self.took.get(&turn.kind()).copied()).sum()
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
