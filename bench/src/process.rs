//! The memory, CPU time and cores of processes, as the kernel counts them.

use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the resident memory of this process, in bytes.
#[must_use]
pub fn resident() -> u64 {
    status_bytes("self", "VmRSS:")
}

/// Returns the resident memory of this process that no file backs, in bytes.
#[cfg(feature = "peers")]
pub(crate) fn anonymous() -> u64 {
    status_bytes("self", "RssAnon:")
}

/// Returns the peak of the resident memory of this process in bytes, since its start or since
/// `MemoryMark::set` last reset the peak.
#[must_use]
pub fn peak() -> u64 {
    status_bytes("self", "VmHWM:")
}

/// Returns the peak of another process's resident memory since its start, in bytes; 0 if the
/// process has ended.
#[must_use]
pub fn peak_of(process: u32) -> u64 {
    status_bytes(&process.to_string(), "VmHWM:")
}

/// Returns the CPU time of this process so far.
///
/// # Errors
/// If the system has no clock for the CPU time of a process.
pub fn cpu() -> nix::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Reads a field of a process's status, in bytes; 0 if it is missing.
fn status_bytes(process: &str, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok());
    kilobytes.unwrap_or(0) * 1024
}
