//! The resident memory at the start of a measurement, and its peak since.

use std::fs;

use serde_json::{Map, Value};

use crate::protocol::ChildArgs;
use crate::warm;

/// See the module.
#[derive(Clone, Copy)]
pub struct MemoryMark {
    start: u64,
    resettable: bool,
}

impl MemoryMark {
    /// Makes memory ready for what the engine will take and forgets the peak so far. Belongs right
    /// before the clock starts.
    pub(super) fn set(args: &ChildArgs) -> Self {
        warm::before_clock(args.engine, args.objects);
        Self::start()
    }

    /// Forgets the peak so far.
    #[must_use]
    pub fn start() -> Self {
        // 5 resets the high-water mark to what is resident now. Some sandboxes do not let a
        // process do that.
        let resettable = fs::write("/proc/self/clear_refs", "5").is_ok();
        Self { start: resident(), resettable }
    }

    /// How much more than at the start was resident at the peak.
    #[must_use]
    pub fn peak_over_start(self) -> u64 {
        peak().saturating_sub(self.start)
    }

    /// Reads the peak and writes both figures down. Belongs right after the clock, since what
    /// follows takes memory too.
    pub fn add_to(self, extra: &mut Map<String, Value>) {
        extra.insert("start_bytes".into(), self.start.into());
        extra.insert("peak_bytes".into(), peak().into());
        if !self.resettable {
            let note = "peak of the whole process: the high-water mark cannot be reset here";
            extra.insert("peak_note".into(), note.into());
        }
    }
}

/// What is resident now.
pub fn resident() -> u64 {
    status_bytes("self", "VmRSS:")
}

/// The most that was resident since the start of the process, or since a mark forgot it.
#[must_use]
pub fn peak() -> u64 {
    status_bytes("self", "VmHWM:")
}

/// The most that was resident of another process since its start; 0 when it has ended.
#[cfg(feature = "peers")]
pub(crate) fn peak_of(process: u32) -> u64 {
    status_bytes(&process.to_string(), "VmHWM:")
}

/// One field of a process's status; 0 where there is none.
fn status_bytes(process: &str, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok());
    kilobytes.unwrap_or(0) * 1024
}
