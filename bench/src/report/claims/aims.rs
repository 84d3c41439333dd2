//! What was aimed at and what was found: BENCHMARKS.md's table.

use std::fmt::Write;

use super::super::figure::figure;
use super::{Claims, GO, OURS, some, two};

/// From so many objects to so many grows what is said to.
const GROWTH: [usize; 2] = [100_000, 4_000_000];

/// Where a target lies.
#[derive(Clone, Copy)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
    /// Beside what was aimed at.
    None,
}

/// The table as far as it is written.
struct Lines(String);

impl Lines {
    fn add(&mut self, what: &str, aimed: &str, found: &[String]) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "| {what} | {aimed} | {} |", found.join(", "));
    }
}

impl Claims<'_> {
    /// BENCHMARKS.md's table of what was aimed at.
    #[must_use]
    pub fn aimed_at(self) -> String {
        let mut lines = Lines("| | aimed at | found |\n| --- | --- | --- |\n".to_owned());
        self.lists(&mut lines);
        self.updates(&mut lines);
        self.others(&mut lines);
        lines.0
    }

    fn lists(self, lines: &mut Lines) {
        let bases = [
            ("mutex", 14.0),
            (GO, 42.0),
            ("client-go-realfifo", 33.0),
            ("client-go-informer", 60.0),
            ("kube-writer-arc", 9.0),
        ];
        lines.add(
            "relist, all known: times mutex, client-go's DeltaFIFO, RealFIFO, informer, kube's writer of `Arc`s",
            "14, 42, 33, 60, 9",
            &self.with_rounds(self.all_times("relist", "", &bases), "relist", OURS),
        );
        let over_floor = |engine| Some(self.median("relist", "", engine)? / self.median("relist", "", "floor")?);
        let threads =
            vec![ratio(over_floor("deltafifo-1-thread"), Aim::AtMost(2.0)), ratio(over_floor(OURS), Aim::AtMost(1.3))];
        lines.add(
            "the same on one thread and on two: times the floor",
            "at most 2 and 1.3",
            &self.with_rounds(threads, "relist", "deltafifo-1-thread"),
        );
        lines.add("relist, `owned`: times mutex", "4.5", &self.all_times("relist", "owned", &[("mutex", 4.5)]));
        let skip = self.median("relist", "", OURS).zip(self.median("relist", "", "deltafifo-skip"));
        let skip = vec![ratio(skip.map(|(all, skipped)| all / skipped), Aim::AtLeast(1.5))];
        lines.add(
            "relist, unchanged skipped: times as fast as not",
            "1.5",
            &self.with_rounds(skip, "relist", "deltafifo-skip"),
        );
        let bases = [("mutex", 10.0), (GO, 30.0), ("client-go-informer", 15.0), ("kube-writer-arc", 4.0)];
        lines.add(
            "initial: times mutex, client-go's DeltaFIFO, informer, kube's writer of `Arc`s",
            "10, 30, 15, 4",
            &self.with_rounds(self.all_times("initial", "", &bases), "initial", OURS),
        );
        let bases = [("mutex", 11.0), (GO, 35.0)];
        lines.add(
            "churn: times mutex, client-go's DeltaFIFO",
            "11, 35",
            &self.with_rounds(self.all_times("churn", "", &bases), "churn", OURS),
        );
    }

    fn updates(self, lines: &mut Lines) {
        lines.add(
            "events singly: times mutex, dashmap, client-go's DeltaFIFO",
            "2.5, 0.9, 6",
            &[self.spread("", "mutex", 2.5), self.spread("", "dashmap", 0.9), self.spread("", GO, 6.0)],
        );
        lines.add(
            "events in bursts: times mutex, dashmap",
            "4, 1.2",
            &[self.spread("-burst", "mutex", 4.0), self.spread("-burst", "dashmap", 1.2)],
        );
        let all = [OURS, "deltafifo-skip", "deltafifo-lane"];
        lines.add(
            "stall, an add at p99.9: deltafifo, skipped, with the lane",
            "200 µs",
            &all.map(|engine| self.time("stall", "add-p99.9", engine, 200e-6)),
        );
        // Round by round: the control of one is none of another.
        let over_control = |engine| {
            let of = |variant| Some(&self.row("stall", variant, engine)?.rounds);
            let shown = |more: f64| if more > 0.0 { figure(more, "s") } else { "none".to_owned() };
            let each = |(with, without): (&f64, &f64)| {
                let more = with - without;
                judged(shown(more), more, Aim::AtMost(1e-3))
            };
            let both = of("handled-p99").zip(of("control-handled-p99"));
            let rounds = both.map(|(with, without)| with.iter().zip(without).map(each).collect::<Vec<_>>());
            some(rounds.map(|rounds| rounds.join(" and ")))
        };
        lines.add(
            "stall, handled at p99 over the control row, round by round: skipped; with the lane",
            "1 ms each",
            &[format!("{}; {}", over_control("deltafifo-skip"), over_control("deltafifo-lane"))],
        );
        lines.add(
            "stall, handled at p99: times sooner than client-go's DeltaFIFO",
            "15",
            &self.all_times("stall", "handled-p99", &[(GO, 15.0)]),
        );
        let slow = |work| self.median("slow-handler", &format!("{work}us-4-consumers-add-p50"), OURS);
        lines.add(
            "slow handler of 10 µs, 4 consumers: the median add, times that without one",
            "2",
            &[ratio(slow("10").zip(slow("0")).map(|(slow, none)| slow / none), Aim::AtMost(2.0))],
        );
    }

    fn others(self, lines: &mut Lines) {
        let over_idle = |readers: &str| {
            let of = |idle: &str| self.median("readers", &format!("{idle}{readers}-p99.9"), OURS);
            ratio(of("").zip(of("idle-")).map(|(with, idle)| with / idle), Aim::AtMost(2.0))
        };
        let limit = |variant| self.time("readers", variant, OURS, 50e-6);
        lines.add(
            "a get during relists at p99.9, 1 and 4 readers: times that in an idle store; the limit of the tool",
            "2; 50 µs",
            &[over_idle("1-thread"), over_idle("4-thread"), limit("1-thread-p99.9"), limit("4-thread-p99.9")],
        );
        let longest = |other| {
            let times = self.times("readers", "1-thread-max", other);
            some(times.map(|times| judged(format!("1/{times:.0}"), times, Aim::AtLeast(50.0))))
        };
        lines.add(
            "the longest get, 1 reader: as long as kube's writer's, its writer's of `Arc`s, client-go's informer's",
            "1/50",
            &[longest("kube-writer"), longest("kube-writer-arc"), longest("client-go-informer")],
        );
        let memory = |variant, most| {
            let median = self.median("memory", variant, OURS);
            some(median.map(|bytes| judged(format!("{bytes:.0} B"), bytes.round(), Aim::AtMost(most))))
        };
        lines.add(
            "memory a key: idle (its key of 27 B in it), first delta pending, a relist's peak",
            "123 B, 0, 48 B",
            &[memory("idle", 96.0 + 27.0), memory("pending-1", 0.0), memory("relist-peak", 48.0)],
        );
        let aim = Aim::AtMost(1.5);
        let growths = [
            ("relist", "", OURS, aim),
            ("relist", "", "deltafifo-1-thread", aim),
            ("initial", "", OURS, aim),
            ("relist", "owned", OURS, aim),
            ("relist", "", "floor", Aim::None),
            ("relist", "", "mutex", Aim::None),
            ("relist", "", GO, Aim::None),
        ];
        lines.add(
            "growth, time per object at 4,000,000 over that at 100,000: relist on two threads, on one, initial, `owned`; the \
             floor's relist, mutex's, client-go's DeltaFIFO's",
            "1.5",
            &growths.map(|(workload, variant, engine, aim)| ratio(self.growth(workload, variant, engine), aim)),
        );
    }

    fn all_times(self, workload: &str, variant: &str, others: &[(&str, f64)]) -> Vec<String> {
        let time = |(other, aim): &(&str, f64)| ratio(self.times(workload, variant, other), Aim::AtLeast(*aim));
        others.iter().map(time).collect()
    }

    /// With the figures of an engine's rounds at the end.
    fn with_rounds(self, mut found: Vec<String>, workload: &str, engine: &str) -> Vec<String> {
        if let Some(last) = found.pop() {
            found.push(format!("{last} (rounds: {})", self.rounds(workload, "", engine)));
        }
        found
    }

    /// The least and the most that all keys and threads have.
    fn spread(self, burst: &str, other: &str, aim: f64) -> String {
        let ratios = ["uniform", "zipf"].into_iter().flat_map(|keys| {
            ["1x1", "2x2", "4x4"].map(|threads| self.times("events", &format!("{keys}-{threads}{burst}"), other))
        });
        let Some(ratios) = ratios.collect::<Option<Vec<f64>>>() else { return "-".to_owned() };
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        format!("{} to {}", ratio(Some(least), Aim::AtLeast(aim)), two(most))
    }

    fn time(self, workload: &str, variant: &str, engine: &str, most: f64) -> String {
        let median = self.median(workload, variant, engine);
        some(median.map(|seconds| judged(figure(seconds, "s"), seconds, Aim::AtMost(most))))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn growth(self, workload: &str, variant: &str, engine: &str) -> Option<f64> {
        let each = |objects: usize| Some(self.row_of(workload, variant, engine, objects)?.median / objects as f64);
        let [few, many] = GROWTH;
        Some(each(many)? / each(few)?)
    }
}

/// A ratio, judged as it is shown: what is short by less than a digit is not short.
fn ratio(ratio: Option<f64>, aim: Aim) -> String {
    some(ratio.map(|ratio| {
        let shown = two(ratio);
        let value = shown.parse().unwrap_or(ratio);
        judged(shown, value, aim)
    }))
}

/// In bold what missed its aim.
fn judged(shown: String, value: f64, aim: Aim) -> String {
    let missed = match aim {
        Aim::AtLeast(least) => value < least,
        Aim::AtMost(most) => value > most,
        Aim::None => false,
    };
    if missed { format!("**{shown}**") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_two_digits_and_what_missed_is_bold() {
        for (value, shown) in
            [(0.8512, "0.85"), (0.999, "1.0"), (1.449, "1.4"), (9.94, "9.9"), (9.96, "10"), (41.6, "42")]
        {
            assert_eq!(two(value), shown);
        }
        assert_eq!(ratio(Some(41.6), Aim::AtLeast(42.0)), "42");
        assert_eq!(ratio(Some(41.4), Aim::AtLeast(42.0)), "**41**");
        assert_eq!(ratio(Some(1.6), Aim::AtMost(1.5)), "**1.6**");
        assert_eq!(ratio(Some(1.6), Aim::None), "1.6");
        assert_eq!(ratio(None, Aim::AtMost(1.5)), "-");
    }
}
