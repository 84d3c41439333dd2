//! The pace of a stall run's offers. While the producer sleeps the others have both cores; one
//! that spins instead would keep a core from the consumer, and would measure itself. Only the last
//! few microseconds are spent turning, for the wake-up to be exact.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const SLEEP_IF_AHEAD: Duration = Duration::from_micros(50);
const WAKE_EARLY: Duration = Duration::from_micros(15);

/// Asks the kernel for exact wake-ups of this thread. Where it refuses, its default of 50 µs
/// stays, which makes offers late but not fewer.
pub fn exact_wake_ups() {
    let thread = fs::read_link("/proc/thread-self").ok();
    if let Some(id) = thread.as_deref().and_then(|path| path.file_name()?.to_str()) {
        let _ = fs::write(format!("/proc/{id}/timerslack_ns"), "1");
    }
}

/// Returns at the given time since start, or at once when that has passed.
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
