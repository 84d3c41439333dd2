//! Fast handlers beside slow ones: each policy against a control without slow ones, round by
//! round, each run in a process of its own.

use std::env;
use std::error::Error;
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use deltafifo_informer::shared_informer::Buffer;

use super::beside::{self, Outcome};
use super::form::Form;
use super::mib;

/// How much later at p99 fast handlers may be told than in the control, in milliseconds.
const ASKED: f64 = 1.0;
/// Objects of a walk that are in a buffer at a time: some 64, since it takes what has one place in
/// the table at once.
const STRIDE: usize = 80;

#[derive(Args)]
pub struct Options {
    /// How many objects are written to, in turn
    #[arg(long, default_value_t = 2_000)]
    pub objects: u64,
    /// How many writes a second
    #[arg(long, default_value_t = 10_000)]
    pub rate: u32,
    /// For how long, after a second that is not measured; holding back, a tenth of it
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// How many handlers are fast
    #[arg(long, default_value_t = 40)]
    pub fast: usize,
    /// How many are slow
    #[arg(long, default_value_t = 10)]
    pub slow: usize,
    /// How slow: microseconds a call
    #[arg(long, default_value_t = 1_000)]
    pub pause: u64,
    /// The bound of the two policies that have one
    #[arg(long, default_value_t = 500)]
    pub bound: usize,
    /// How handlers are called
    #[arg(long, value_enum, default_value_t = Form::Task)]
    pub form: Form,
    /// How often everything is run
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Only this run, in this process, for another to read
    #[arg(long, hide = true)]
    run: Option<Run>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Run {
    /// One fast handler
    Alone,
    /// The fast ones
    Control,
    /// With slow ones
    Compress,
    DropAndResync,
    HoldBack,
}

impl Run {
    /// How many are fast, and how many slow.
    pub fn handlers(self, options: &Options) -> (usize, usize) {
        match self {
            Self::Alone => (1, 0),
            Self::Control => (options.fast, 0),
            Self::Compress | Self::DropAndResync | Self::HoldBack => (options.fast, options.slow),
        }
    }

    /// Of the slow ones.
    pub fn buffer(self, options: &Options) -> Buffer {
        match self {
            Self::Alone | Self::Control | Self::Compress => Buffer::Compress,
            Self::DropAndResync => Buffer::DropAndResync(options.bound),
            Self::HoldBack => Buffer::HoldBack(options.bound),
        }
    }

    /// What the policy says of how much may wait, when the number after the last write is `end`.
    pub fn most_depth(self, options: &Options, end: u64) -> usize {
        let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
        match self {
            Self::Alone | Self::Control => 0,
            Self::Compress => count(options.objects),
            Self::DropAndResync => options.bound + STRIDE,
            // And what a worker has in hand: at most all that was written to an object.
            Self::HoldBack => options.bound + count(end.div_ceil(options.objects)),
        }
    }
}

/// Gives what was promised and not kept.
pub fn measure(options: &Options) -> Result<Vec<String>, Box<dyn Error>> {
    if let Some(run) = options.run {
        serde_json::to_writer(std::io::stdout(), &beside::measure(run, options)?)?;
        return Ok(Vec::new());
    }
    println!(
        "{} writes a second to {} objects; {} fast handlers, {} slow ones of {} µs a call, each {}; times in ms",
        options.rate,
        options.objects,
        options.fast,
        options.slow,
        options.pause,
        name(&options.form),
    );
    let mut broken = Vec::new();
    for _ in 0..options.rounds {
        println!("{HEAD}");
        let mut control = None;
        for run in Run::value_variants() {
            let outcome = in_a_child(*run)?;
            println!("{}", row(*run, &outcome, control));
            broken.extend(outcome.broken.iter().map(|promise| format!("{}: {promise}", name(run))));
            if *run == Run::Control {
                control = Some(outcome.p99);
            }
        }
    }
    Ok(broken)
}

fn in_a_child(run: Run) -> Result<Outcome, Box<dyn Error>> {
    let name = name(&run);
    let arguments = env::args_os().skip(1).chain(["--run".into(), name.clone().into()]);
    let child =
        Command::new(env::current_exe()?).args(arguments).stderr(Stdio::inherit()).output()?;
    if !child.status.success() {
        return Err(format!("{name}: {}", child.status).into());
    }
    Ok(serde_json::from_slice(&child.stdout)?)
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

const HEAD: &str = "\
run                 p50      p99    p99.9  longest  absorbed  p99 over control  slow: depth         age  resyncs  \
memory MiB  cores  µs a call  µs a write  late p99     rest";

fn row(run: Run, outcome: &Outcome, control: Option<f64>) -> String {
    let over = match control {
        // Holding back delays everybody: that is what it is.
        Some(control) if run != Run::HoldBack => {
            let over = outcome.p99 - control;
            format!("{over:.2} {}", if over <= ASKED { "met" } else { "MISSED" })
        }
        _ => "-".to_owned(),
    };
    let depth = format!("{}/{}", outcome.depth, outcome.most_depth);
    let age = format!("{:.0}/{:.0}", outcome.age, outcome.most_age);
    format!(
        "{:<15} {:7.2} {:8.2} {:8.2} {:8.2} {:8.1}% {over:>17} {depth:>12} {age:>11} {:8} {:11.1} {:6.2} {:10.2} {:11.1} {:9.2} {:8.0}",
        name(&run),
        outcome.p50,
        outcome.p99,
        outcome.p99_9,
        outcome.longest,
        outcome.absorbed * 100.0,
        outcome.resyncs,
        mib(outcome.growth),
        outcome.cores,
        outcome.call,
        outcome.write * 1e3,
        outcome.late,
        outcome.rest,
    )
}
