//! How long it takes until a controller has reconciled everything once, and how much memory, with
//! kube's runtime and with ours, over the test kit's API server, which takes its part of the same
//! cores.
//!
//!     cargo run --release -p deltafifo-bench --features peers --example controllers -- --objects 1000000
//!
//! Each is a process of its own, by turns.

#![allow(clippy::duplicate_mod)] // The same controllers with another runtime.

mod kubes;
mod ours;

use std::env;
use std::error::Error;
use std::process::Command;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use deltafifo_bench::workloads::MemoryMark;
use deltafifo_testkit::{ApiServer, Resource};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure how long a controller's first reconciles take.
#[derive(Parser)]
struct Args {
    /// How many config maps there are
    #[arg(long, default_value_t = 1_000_000)]
    objects: usize,
    /// How many are reconciled at a time
    #[arg(long, default_value_t = 8)]
    workers: u16,
    /// How many times each is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only with this runtime, in this process
    #[arg(long)]
    runtime: Option<Runtime>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Runtime {
    Kubes,
    Ours,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if let Some(runtime) = args.runtime {
        return measure(runtime, &args);
    }
    for _ in 0..args.rounds {
        for runtime in Runtime::value_variants() {
            let name = runtime.to_possible_value().ok_or("a runtime has a name")?;
            let [objects, workers] = [args.objects.to_string(), args.workers.to_string()];
            let arguments =
                ["--objects", &objects, "--workers", &workers, "--runtime", name.get_name()];
            let ended = Command::new(env::current_exe()?).args(arguments).status()?;
            if !ended.success() {
                return Err(format!("{}: {ended}", name.get_name()).into());
            }
        }
    }
    Ok(())
}

#[tokio::main]
async fn measure(runtime: Runtime, args: &Args) -> Result<(), Box<dyn Error>> {
    let server =
        ApiServer::builder().resource(Resource::config_maps()).frame_size(64 << 10).build();
    server.generate(&Resource::config_maps(), args.objects as u64, |number| {
        json!({
            "metadata": { "namespace": format!("namespace-{}", number % 100), "name": number.to_string() },
            "data": { "key": format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) },
        })
    })?;
    let (mark, from) = (MemoryMark::start(), Instant::now());
    let client = server.client();
    match runtime {
        Runtime::Kubes => kubes::once::run(client, args.objects, args.workers).await,
        Runtime::Ours => ours::once::run(client, args.objects, args.workers).await,
    }
    let (seconds, mib) = (from.elapsed().as_secs_f64(), mark.peak_over_start() >> 20);
    let name = runtime.to_possible_value().ok_or("a runtime has a name")?;
    #[allow(clippy::cast_precision_loss)] // For a person.
    let rate = args.objects as f64 / seconds;
    println!(
        "{:<6} {} reconciled after {seconds:.2} s, {rate:.0}/s, {mib} MiB more at the peak",
        name.get_name(),
        args.objects
    );
    Ok(())
}
