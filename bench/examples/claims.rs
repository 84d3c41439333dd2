//! What BENCHMARKS.md claims, of the rows of a report: `cargo run -p deltafifo-bench --example claims [ROWS.JSON]`,
//! by default of `bench/report`. The two tables are to be copied as they are (`tests/claims.rs` compares them).

use std::path::PathBuf;

use deltafifo_bench::report::{Claims, Report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let default = || concat!(env!("CARGO_MANIFEST_DIR"), "/report/rows.json").into();
    let path: PathBuf = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    let report = Report::read(&path).map_err(|error| format!("{} {error}", path.display()))?;
    let claims = Claims::of(&report);
    println!("BENCHMARKS.md, The last full run:\n\n{}", claims.measured());
    println!("BENCHMARKS.md, the paragraph below:\n\n{}", claims.paragraph());
    println!("BENCHMARKS.md, What was aimed at:\n\n{}", claims.aimed_at());
    Ok(())
}
