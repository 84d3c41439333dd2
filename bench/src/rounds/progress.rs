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
    /// The measured and the estimated seconds of the finished turns.
    measured: f64,
    estimated: f64,
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
        Self { bar, plan, began, measured: 0.0, estimated: 0.0, remaining }
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

    /// Returns the estimated time of these turns. The estimates of all turns are corrected by the
    /// ratio of measured to estimated time of the finished ones.
    pub fn remaining(&self, ahead: &[Turn]) -> Duration {
        let pace = if self.estimated > 0.0 { self.measured / self.estimated } else { 1.0 };
        let estimated: f64 = ahead.iter().map(|turn| estimate::seconds(self.plan, turn)).sum();
        Duration::try_from_secs_f64(pace * estimated).unwrap_or(Duration::MAX)
    }

    /// Counts a turn as done without running it.
    pub fn skip(&self) {
        self.bar.inc(1);
    }

    pub fn end(&mut self, turn: &Turn) {
        self.measured += self.began.elapsed().as_secs_f64();
        self.estimated += estimate::seconds(self.plan, turn);
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

    #[test]
    fn estimate_exists_from_the_start_and_follows_the_measured_time() {
        let plan = Plan::of(&[EngineName::Floor, EngineName::Mutex], &[Workload::Relist], 1000);
        let turns = Turn::all(&plan);
        let mut progress = RunProgress::new(turns.len(), &plan);
        let first = progress.remaining(&turns[1..]);
        assert!(!first.is_zero());
        (progress.measured, progress.estimated) = (6.0, 3.0);
        let ratio = progress.remaining(&turns[1..]).div_duration_f64(first);
        assert!((ratio - 2.0).abs() < 1e-6, "twice as slow as estimated: {ratio}");
    }
}
