//! The machine that was measured on.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::thread;

use serde::Serialize;

use super::versions::locked;

/// What the figures depend on beside the code.
#[derive(Clone, Debug, Serialize)]
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
    pub engines: BTreeMap<&'static str, String>,
}

impl Machine {
    /// This one. What cannot be found out is `unknown`.
    #[must_use]
    pub fn here() -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            memory_bytes: memory.unwrap_or(0) * 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |text| text.trim().into()),
            allocator: format!("mimalloc {}", locked("mimalloc")),
            engines: BTreeMap::new(),
        }
    }
}
