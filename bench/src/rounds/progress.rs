//! The progress of a run on standard error: a bar on a terminal, otherwise one line for each turn.

use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::estimate;
use super::plan::Plan;
use super::turn::Turn;
use crate::names::Workload;
use crate::protocol::{Progress, Row};
use crate::report::figure;

pub(super) struct RunProgress<'a> {
    bar: ProgressBar,
    plan: &'a Plan,
    began: Instant,
    /// The turns that have succeeded, with the seconds that each took.
    finished: Vec<(Turn, f64)>,
    /// The estimate of the remaining time at the start of the current turn.
    remaining: Duration,
}

impl<'a> RunProgress<'a> {
    pub fn new(turns: usize, plan: &'a Plan) -> Self {
        let bar = ProgressBar::new(turns as u64);
        let style =
            ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len}{prefix} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        let (began, remaining) = (Instant::now(), Duration::ZERO);
        Self { bar, plan, began, finished: Vec::new(), remaining }
    }

    /// Shows the start of a turn. `ahead` are the turns from this one on.
    pub fn begin(&mut self, turn: &Turn, ahead: &[Turn]) {
        self.began = Instant::now();
        self.remaining = self.remaining(ahead);
        let remaining = self.estimate();
        if self.bar.is_hidden() {
            eprintln!("{turn} ({:.0} s so far{remaining})", self.bar.elapsed().as_secs_f64());
        }
        self.bar.set_prefix(remaining);
    }

    /// Returns the remaining time as text.
    fn estimate(&self) -> String {
        let left = self.remaining.saturating_sub(self.began.elapsed());
        format!(", about {} left", HumanDuration(left))
    }

    pub fn update(&self, turn: &Turn, at: &Progress) {
        self.bar.set_prefix(self.estimate());
        let of = if at.total > 0 { format!(" {}/{}", at.done, at.total) } else { String::new() };
        self.bar.set_message(format!("{turn}: {}{of}", at.what));
    }

    /// Prints the time of a list at once, because the report comes much later.
    pub fn print_figure(&self, turn: &Turn, row: &Row) {
        if Workload::named(&row.workload).is_some_and(Workload::is_list) && row.variant.is_empty() {
            let figure = figure(row.value, &row.unit);
            self.print(&format!("  {} of {}: {figure}", row.workload, turn.engine));
        }
    }

    pub fn print(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    pub fn elapsed(&self) -> Duration {
        self.bar.elapsed()
    }

    /// Returns the estimated time of these turns. The estimate of each is corrected by the ratio of
    /// measured to estimated time of the finished turns that are most like it.
    pub fn remaining(&self, ahead: &[Turn]) -> Duration {
        let seconds = |turn| self.pace(turn) * estimate::seconds(self.plan, turn);
        Duration::try_from_secs_f64(ahead.iter().map(seconds).sum()).unwrap_or(Duration::MAX)
    }

    /// Returns the ratio of measured to estimated time of the finished turns with the same engine,
    /// workloads and number of objects as `turn`. If there are none, turns with another number of
    /// objects count, then turns of other engines, and then all turns.
    fn pace(&self, turn: &Turn) -> f64 {
        let ratio = |is_like: &dyn Fn(&Turn) -> bool| {
            let like = self.finished.iter().filter(|(finished, _)| is_like(finished));
            let [measured, estimated] =
                like.fold([0.0, 0.0], |[measured, estimated], (finished, took)| {
                    [measured + took, estimated + estimate::seconds(self.plan, finished)]
                });
            (estimated > 0.0).then(|| measured / estimated)
        };
        let has_workloads = |finished: &Turn| finished.process == turn.process;
        let has_both = |finished: &Turn| has_workloads(finished) && finished.engine == turn.engine;
        ratio(&|finished| has_both(finished) && finished.objects == turn.objects)
            .or_else(|| ratio(&has_both))
            .or_else(|| ratio(&has_workloads))
            .or_else(|| ratio(&|_| true))
            .unwrap_or(1.0)
    }

    /// Records the time of a turn that has succeeded, for the estimate.
    pub fn record(&mut self, turn: &Turn) {
        self.finished.push((*turn, self.began.elapsed().as_secs_f64()));
    }

    /// Counts a turn as done, whether it ran or not.
    pub fn count(&self) {
        self.bar.inc(1);
    }
}

impl Drop for RunProgress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EngineName;

    /// Returns the factor by which the finished turns correct the estimate of `ahead`. Each
    /// finished turn took the given multiple of its own estimate.
    fn correction(plan: &Plan, finished: &[(Turn, f64)], ahead: &Turn) -> f64 {
        let mut progress = RunProgress::new(1, plan);
        let first = progress.remaining(&[*ahead]);
        assert!(!first.is_zero(), "there is an estimate from the start");
        let took = |&(turn, times): &(Turn, f64)| (turn, times * estimate::seconds(plan, &turn));
        progress.finished = finished.iter().map(took).collect();
        progress.remaining(&[*ahead]).div_duration_f64(first)
    }

    #[test]
    fn estimate_follows_the_measured_time_of_the_turns_most_like_it() {
        let engines = [EngineName::Mutex, EngineName::DashMap];
        let mut plan = Plan::of(&engines, &[Workload::Relist, Workload::Stall], 1000);
        plan.objects.push(4000);
        let turns = Turn::all(&plan);
        let find = |engine, workload, objects| {
            let is_it = |turn: &&Turn| {
                (turn.engine, turn.process, turn.objects) == (engine, workload, objects)
            };
            *turns.iter().find(is_it).expect("each engine has a turn of each kind")
        };
        let [mutex, dashmap] = engines;
        let finished = [
            (find(mutex, Workload::Initial, 1000), 2.0),
            (find(dashmap, Workload::Initial, 1000), 4.0),
            (find(mutex, Workload::Stall, 1000), 8.0),
            (find(mutex, Workload::Initial, 4000), 16.0),
        ];
        for (number, engine, workload, objects, expected) in [
            (0, mutex, Workload::Initial, 1000, 1.0),
            (1, dashmap, Workload::Stall, 1000, 2.0),
            (1, dashmap, Workload::Initial, 1000, 2.0),
            (3, mutex, Workload::Initial, 1000, 2.0),
            (3, mutex, Workload::Initial, 4000, 2.0),
            (3, dashmap, Workload::Stall, 4000, 8.0),
            (4, mutex, Workload::Initial, 4000, 16.0),
        ] {
            let ahead = find(engine, workload, objects);
            let corrected = correction(&plan, &finished[..number], &ahead);
            assert!((corrected - expected).abs() < 1e-6, "{ahead} after {number}: {corrected}");
        }
    }
}
