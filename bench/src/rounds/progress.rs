//! The progress of a run on standard error: a bar on a terminal, otherwise one line for each turn.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::estimate;
use super::plan::Plan;
use super::turn::{Kind, Turn};
use crate::names::Workload;
use crate::protocol::{Progress, Row};
use crate::report::figure;

/// The progress of a run.
pub(super) struct RunProgress {
    bar: ProgressBar,
    began: Instant,
    /// The estimated seconds of each kind of turn.
    estimates: BTreeMap<Kind, f64>,
    /// The measured time of each kind of turn.
    measured: BTreeMap<Kind, Duration>,
    /// The estimate of the remaining time at the start of the current turn.
    remaining: Duration,
    precision: &'static str,
}

impl RunProgress {
    pub fn new(all: &[Turn], plan: &Plan) -> Self {
        let bar = ProgressBar::new(all.len() as u64);
        let style =
            ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len}{prefix} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        let estimates =
            all.iter().map(|turn| (turn.kind(), estimate::seconds(plan, turn))).collect();
        Self {
            bar,
            began: Instant::now(),
            estimates,
            measured: BTreeMap::new(),
            remaining: Duration::ZERO,
            precision: "",
        }
    }

    /// Shows the start of a turn. `ahead` are the turns from this one on.
    pub fn begin(&mut self, turn: &Turn, ahead: &[Turn]) {
        self.began = Instant::now();
        let (remaining, known) = remaining(&self.estimates, &self.measured, ahead);
        (self.remaining, self.precision) =
            (remaining, if known { "about" } else { "very roughly" });
        let remaining = self.estimate();
        if self.bar.is_hidden() {
            eprintln!("{turn} ({:.0} s so far{remaining})", self.bar.elapsed().as_secs_f64());
        }
        self.bar.set_prefix(remaining);
    }

    /// Returns the remaining time as text.
    fn estimate(&self) -> String {
        format!(
            ", {} {} left",
            self.precision,
            HumanDuration(self.remaining.saturating_sub(self.began.elapsed()))
        )
    }

    pub fn update(&self, turn: &Turn, at: &Progress) {
        self.bar.set_prefix(self.estimate());
        let of = if at.total > 0 { format!(" {}/{}", at.done, at.total) } else { String::new() };
        self.bar.set_message(format!("{turn}: {}{of}", at.what));
    }

    /// Prints a failure at once, although the report contains it, too.
    pub fn print_failure(&self, failed: &str) {
        self.print(&format!("FAILED: {failed}; continuing with the other turns"));
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

    /// Returns the estimated time of these turns.
    pub fn remaining(&self, ahead: &[Turn]) -> Duration {
        remaining(&self.estimates, &self.measured, ahead).0
    }

    /// Counts a turn as done without running it.
    pub fn skip(&self) {
        self.bar.inc(1);
    }

    pub fn end(&mut self, turn: &Turn) {
        self.measured.insert(turn.kind(), self.began.elapsed());
        self.bar.inc(1);
    }
}

/// Estimates the time of the turns ahead. Returns it, and whether the times of all kinds are
/// known.
///
/// A turn is assumed to take as long as the last turn of its kind. If there is none, the estimate
/// of the kind is corrected by the ratio of measured to estimated time of the known kinds.
fn remaining(
    estimates: &BTreeMap<Kind, f64>,
    measured: &BTreeMap<Kind, Duration>,
    ahead: &[Turn],
) -> (Duration, bool) {
    let estimate = |kind: &Kind| estimates.get(kind).copied().unwrap_or(0.0);
    let known: f64 = measured.keys().map(estimate).sum();
    let pace =
        if known > 0.0 { measured.values().sum::<Duration>().as_secs_f64() / known } else { 1.0 };
    let each = |turn: &Turn| {
        let kind = turn.kind();
        measured.get(&kind).map_or_else(|| pace * estimate(&kind), Duration::as_secs_f64)
    };
    let seconds = ahead.iter().map(each).sum();
    let remaining = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    (remaining, ahead.iter().all(|turn| measured.contains_key(&turn.kind())))
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EngineName;

    #[test]
    fn estimate_exists_from_the_start_and_improves() {
        let turns = [EngineName::Floor, EngineName::Mutex].map(|engine| Turn::of(engine, false));
        let estimates =
            turns.iter().zip([1.0, 3.0]).map(|(turn, estimate)| (turn.kind(), estimate)).collect();
        let mut measured = BTreeMap::new();
        let seconds = |measured: &_, ahead| remaining(&estimates, measured, ahead);
        assert_eq!(seconds(&measured, &turns), (Duration::from_secs(4), false));
        measured.insert(turns[0].kind(), Duration::from_secs(2));
        assert_eq!(
            seconds(&measured, &turns[1..]),
            (Duration::from_secs(6), false),
            "twice as slow as guessed"
        );
        measured.insert(turns[1].kind(), Duration::from_secs(5));
        assert_eq!(seconds(&measured, &turns), (Duration::from_secs(7), true));
    }
}
