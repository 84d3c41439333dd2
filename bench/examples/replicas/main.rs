//! Measures controllers that share their objects by a `ShardGroup`, beside an unsharded controller.
//! Prints each figure with its bar, and whether the bar is held.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --example replicas
//! ```
//!
//! The API server is that of the test kit. Reconcilers do nothing. A figure that takes time to
//! measure depends on the load of the machine.

mod child;
mod cluster;
mod elector;
mod gate;
mod idle;
mod moves;
mod processes;
mod replica;
mod row;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use deltafifo_bench::foreign_report;
use mimalloc::MiMalloc;
use tokio::runtime::Builder;

use child::ChildArgs;
use cluster::{Failure, Timing};
use processes::Replicas;
use replica::Mode;
use row::Row;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The time for which the runtime keeps an idle thread. mimalloc keeps free pages for each thread.
const KEEP_ALIVE: Duration = Duration::from_millis(50);

/// Measure controllers that share their objects.
#[derive(Parser)]
struct Args {
    /// Take a few seconds: small numbers and short durations, with which not all bars are held
    #[arg(long)]
    quick: bool,
    /// Measure these parts only
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// The number of objects [default: 100,000; with --quick: 2,000]
    #[arg(long)]
    objects: Option<usize>,
    /// The number of replicas in processes of their own
    #[arg(long, default_value_t = 4)]
    replicas: usize,
    /// Measure the peak memory of replicas that share 1,000,000 objects, and nothing else
    #[arg(long, conflicts_with = "parts")]
    million: bool,
    /// Write the rows to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Run a replica for another process
    #[command(hide = true)]
    Replica(ChildArgs),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The cost of permits
    Gate,
    /// The requests of a group in which nothing happens
    Idle,
    /// The graceful release of a leader election
    Elector,
    /// Replicas that join, are killed and stop
    Moves,
    /// The memory and the CPU time of one replica
    Share,
    /// The peak memory of replicas, and a kill in the middle of their work
    Large,
}

impl Args {
    fn replicas(&self, objects: usize) -> Replicas {
        Replicas { mode: Mode::Split, objects, members: self.replicas, is_quick: self.quick }
    }
}

impl Part {
    async fn measure(self, args: &Args) -> Result<Vec<Row>, Failure> {
        let objects = args.objects.unwrap_or(match (args.quick, self) {
            (true, _) => 2_000,
            (false, Self::Large) => 1_000_000,
            (false, _) => 100_000,
        });
        let timing = if args.quick { Timing::SHORT } else { Timing::DEFAULT };
        let few = |quick, full| if args.quick { quick } else { full };
        match self {
            Self::Gate => gate::measure(objects, few(10_000, 10_000_000), timing).await,
            Self::Idle => {
                idle::measure(timing, timing.lease_duration * u32::try_from(few(2, 4))?).await
            }
            Self::Elector => elector::measure(few(2, 20)).await,
            Self::Moves => {
                let mut rows = Vec::new();
                for mode in [Mode::Warm, Mode::Split, Mode::SplitServer] {
                    rows.extend(moves::measure(mode, objects, timing).await?);
                }
                Ok(rows)
            }
            Self::Share => processes::measure_share(args.replicas(objects)).await,
            Self::Large => processes::measure_large(args.replicas(objects)).await,
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut args = Args::parse();
    let runtime = Builder::new_multi_thread().enable_all().thread_keep_alive(KEEP_ALIVE).build()?;
    if let Some(Role::Replica(child)) = args.role.take() {
        return runtime.block_on(child::run(child));
    }
    let rows = runtime.block_on(measure(&args))?;
    if let Some(file) = &args.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        fs::write(file, format!("{:#}\n", foreign_report("replicas", &rows)))?;
    }
    Ok(())
}

async fn measure(args: &Args) -> Result<Vec<Row>, Failure> {
    let parts = match &*args.parts {
        [] if args.million => &[Part::Large],
        [] => &[Part::Gate, Part::Idle, Part::Elector, Part::Moves, Part::Share][..],
        parts => parts,
    };
    let mut rows = Vec::new();
    Row::print_head();
    for part in parts {
        let measured = part.measure(args).await?;
        measured.iter().for_each(Row::print);
        rows.extend(measured);
    }
    Ok(rows)
}
