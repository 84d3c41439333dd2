//! Creates as many objects as a program of the user wants, within the limits of the servers and of
//! the machine.

use std::time::Duration;
use std::{fmt, fs};

use deltafifo::BoxError;
use deltafifo_informer::error_chain;
use tokio::time::Instant;

use crate::writer::{Write, Writer};

/// The number of objects after which the limits are checked and the progress is printed.
const STEP: usize = 10_000;
/// The time after which no more objects are created.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// The memory that must remain for the clients, in bytes. The servers take more with each object.
const LEAST_AVAILABLE: u64 = 6 << 30;

/// The number of objects that the servers have, and the reason that there are no more.
pub struct Filled {
    objects: usize,
    why: String,
}

/// Creates the objects of the numbers from 0 to `objects`. Stops before that if the servers refuse
/// an object or do not respond, or at a limit. Then some objects with higher numbers than those
/// that are counted may exist.
///
/// # Errors
/// If not even the first [`STEP`] objects can be created.
pub async fn fill(writer: &Writer, objects: usize) -> Result<Filled, BoxError> {
    let (began, mut filled) = (Instant::now(), 0);
    let why = loop {
        let next = objects.min(filled + STEP);
        match writer.all(Write::Create, filled..next).await {
            Ok(()) => filled = next,
            Err(error) if filled == 0 => return Err(error.into()),
            Err(error) => break error_chain(&error),
        }
        let (elapsed, available) = (began.elapsed(), available()?);
        eprintln!("{filled} objects after {elapsed:.0?}; {} MiB are available", available >> 20);
        if filled == objects {
            break format!("created in {elapsed:.0?}");
        } else if available < LEAST_AVAILABLE {
            break format!("less than {LEAST_AVAILABLE} bytes of memory are available");
        } else if elapsed > LIMIT {
            break format!("the creation takes longer than {LIMIT:?}");
        }
    };
    Ok(Filled { objects: filled, why })
}

/// Returns the memory of the machine that new processes can use without swapping, in bytes.
fn available() -> Result<u64, BoxError> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kilobytes = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    Ok(kilobytes.ok_or("/proc/meminfo has no MemAvailable")?.parse::<u64>()? * 1024)
}

impl fmt::Display for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.objects, self.why)
    }
}
