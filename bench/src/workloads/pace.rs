//! The pace of the offers of the workload `stall`. The producer sleeps until shortly before the
//! time of an offer, so that the other threads can use all cores. A producer that spins all the
//! time would take a core from the consumer, and the measured latencies would be its own effect.
//! This producer spins only for the last microseconds, so that it continues on time.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const SLEEP_IF_AHEAD: Duration = Duration::from_micros(50);
const WAKE_EARLY: Duration = Duration::from_micros(15);

/// Requests exact wake-ups of this thread from the kernel. If the kernel refuses, the default slack
/// of 50 µs makes offers late, but not fewer.
pub fn exact_wake_ups() {
    let thread = fs::read_link("/proc/thread-self").ok();
    if let Some(id) = thread.as_deref().and_then(|path| path.file_name()?.to_str()) {
        let _ = fs::write(format!("/proc/{id}/timerslack_ns"), "1");
    }
}

/// Blocks until the duration `intended` has passed since `start`. Returns at once if it has passed
/// already.
pub fn wait_until(start: Instant, intended: Duration) {
    loop {
        let ahead = intended.saturating_sub(start.elapsed());
        if ahead.is_zero() {
            return;
        }
        if ahead > SLEEP_IF_AHEAD {
            thread::sleep(ahead.saturating_sub(WAKE_EARLY));
        } else {
            std::hint::spin_loop();
        }
    }
}
