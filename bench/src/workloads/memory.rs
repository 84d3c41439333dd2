//! The resident memory at the start of a measurement, and its later peak.

use std::fs;

use serde_json::{Map, Value};

use crate::process::{peak, resident};
use crate::protocol::ChildArgs;
use crate::warm;

/// The resident memory at the start of a measurement.
#[derive(Clone, Copy)]
pub struct MemoryMark {
    start: u64,
    resettable: bool,
}

impl MemoryMark {
    /// Touches the memory that the engine will use, and resets the peak. Call it immediately before
    /// the measurement starts.
    pub fn set(args: &ChildArgs) -> Self {
        warm::before_clock(args.engine, args.objects);
        // Writing 5 resets the peak to the current resident memory. Some sandboxes do not allow it.
        let resettable = fs::write("/proc/self/clear_refs", "5").is_ok();
        Self { start: resident(), resettable }
    }

    /// Returns the growth of the resident memory from the start to the peak, in bytes.
    pub fn peak_over_start(self) -> u64 {
        peak().saturating_sub(self.start)
    }

    /// Returns the start and the peak as fields of a row. Call it immediately after the
    /// measurement, because all later steps use memory, too.
    pub fn fields(self) -> Map<String, Value> {
        let mut extra = Map::new();
        extra.insert("start_bytes".into(), self.start.into());
        extra.insert("peak_bytes".into(), peak().into());
        if !self.resettable {
            let note = "peak of the whole process: the high-water mark cannot be reset here";
            extra.insert("peak_note".into(), note.into());
        }
        extra
    }
}
