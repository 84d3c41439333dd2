//! The machine that was measured on.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::versions::locked;

/// What the figures depend on beside the code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// Version of the kernel.
    pub kernel: String,
    /// Allocator of the engines in Rust.
    pub allocator: String,
    /// Every engine's parts and their versions, by the engine's name.
    pub engines: BTreeMap<String, String>,
}

impl Machine {
    /// This one. What cannot be found out is `unknown`.
    #[must_use]
    pub fn here() -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            memory_bytes: memory("MemTotal").unwrap_or(0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |text| text.trim().into()),
            allocator: format!("mimalloc {}", locked("mimalloc")),
            engines: BTreeMap::new(),
        }
    }

    /// Memory that can be had now; without bound where that cannot be found out.
    #[must_use]
    pub fn available_bytes() -> u64 {
        memory("MemAvailable").unwrap_or(u64::MAX)
    }
}

/// What the system says about itself, in a file of lines `name: value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory(name: &str) -> Option<u64> {
    let kilobytes: u64 = field("/proc/meminfo", name)?.split(' ').next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
