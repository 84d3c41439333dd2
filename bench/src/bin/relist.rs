//! Runs the tool `relist`, which compares deltafifo with other engines on the same data. See
//! BENCHMARKS.md.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    deltafifo_bench::run_tool()
}
