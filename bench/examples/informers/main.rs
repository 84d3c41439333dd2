//! What many handlers cost each other, and what a late one, or one that reads nothing, costs those
//! that are there: shared informers over the test kit's API server, in this process, on a schedule
//! that waits for nobody.
//!
//!     cargo run --release -p deltafifo-bench --features peers --example informers -- handlers
//!     cargo run --release -p deltafifo-bench --features peers --example informers -- late --objects 1000000
//!     cargo run --release -p deltafifo-bench --features peers --example informers -- unread --objects 500000
//!
//! It fails when a promise is broken: a change lost, a buffer beyond its bound, a handler that was
//! not told the last state. A time that was missed is said to be so, and is no failure.

mod beside;
mod form;
mod handlers;
mod late;
mod live;
mod load;
mod tally;
mod unread;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use hdrhistogram::Histogram;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure shared informers.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Fast handlers beside slow ones, once for each policy of what waits for a slow one
    Handlers(handlers::Options),
    /// A handler that comes when much is known already
    Late(late::Options),
    /// Handlers that read nothing while changes of many objects come
    Unread(unread::Options),
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let broken = match Args::parse().what {
        What::Handlers(options) => handlers::measure(&options)?,
        What::Late(options) => late::measure(&options)?,
        What::Unread(options) => unread::measure(&options)?,
    };
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// For latencies of up to a minute, in nanoseconds.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// In milliseconds.
fn quantile(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    Duration::from_nanos(histogram.value_at_quantile(quantile)).as_secs_f64() * 1e3
}

#[allow(clippy::cast_precision_loss)] // For a table.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
