//! Replays conformance vectors, recorded from the real client-go, on an engine, and prints the
//! answers that differ.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use deltafifo::BoxError;
use deltafifo_conformance::vectors::{Engine, Tally, read};

/// Replay files of conformance vectors (one JSON case a line, plain or gzip) on an engine.
///
/// Prints the first mismatches in full, and the counts in the last line. Exits with 0 if every
/// answer is client-go's, or the one that the case marks as this project's own (`ours`); with 1 if
/// an answer is not; with 2 if a file cannot be replayed.
#[derive(Parser)]
#[command(name = "replay")]
struct Arguments {
    /// The engine on which the vectors are replayed.
    #[arg(long, value_enum, default_value_t = Engine::Deltafifo)]
    engine: Engine,
    /// Files of vectors.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match replay(&Arguments::parse()) {
        Ok(tally) => {
            for mismatch in &tally.first {
                println!("{mismatch}\n");
            }
            if tally.differences > 0 {
                println!(
                    "{} answers differ from client-go's as docs/src/semantics.md says",
                    tally.differences
                );
            }
            println!("{tally}");
            if tally.mismatches == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::from(2)
        }
    }
}

fn replay(arguments: &Arguments) -> Result<Tally, BoxError> {
    let mut tally = Tally::default();
    for file in &arguments.files {
        for case in read(file)? {
            let case = case?;
            tally
                .replay(&case, arguments.engine)
                .map_err(|error| format!("{}: case {}: {error}", file.display(), case.name))?;
        }
    }
    Ok(tally)
}
