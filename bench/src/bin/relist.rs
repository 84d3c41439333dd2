//! Compares deltafifo with its peers on the same data, in one run. See BENCHMARKS.md.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    deltafifo_bench::run_tool()
}
