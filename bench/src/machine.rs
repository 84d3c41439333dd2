//! The machine on which a run measures.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::process::cores;
use crate::versions::locked;

/// The properties of the machine and its software that figures depend on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the processor.
    pub cpu: String,
    /// The number of cores that this process may use.
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// The allocator of the engines in Rust.
    pub allocator: String,
    /// The description of each engine's parts with their versions, by the engine's name.
    pub engines: BTreeMap<String, String>,
}

impl Machine {
    /// Returns the properties of this machine. A property that cannot be read is `unknown`, or 0.
    pub fn here() -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: cores(),
            memory_bytes: memory("MemTotal").unwrap_or(0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |text| text.trim().into()),
            allocator: format!("mimalloc {}", locked("mimalloc")),
            engines: BTreeMap::new(),
        }
    }

    /// Returns the available memory in bytes; `u64::MAX` if it cannot be read.
    pub fn available_bytes() -> u64 {
        memory("MemAvailable").unwrap_or(u64::MAX)
    }
}

/// Reads a value from a system file of lines `name: value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory(name: &str) -> Option<u64> {
    let kilobytes: u64 = field("/proc/meminfo", name)?.split(' ').next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
