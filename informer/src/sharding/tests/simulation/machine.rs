//! A machine with its own clocks, on which one process runs at a time.
//!
//! Each process has a tokio runtime of its own, whose paused clock is the monotonic clock of the
//! machine. A machine that is not run has no turn, and nothing in it does: that is a suspended
//! process. A runtime that is dropped is a killed process.

use std::time::Duration;

use fastrand::Rng;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep_until};

use super::replica::Replica;
use crate::lease::set_wall_clock;
use crate::util::random::simulate;

/// The number of times that a machine lets other tasks run before it is suspended, so that all
/// tasks that are due have had their turn.
const TURNS: usize = 50;

/// Returns a runtime with a paused clock.
pub fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system")
}

/// A clock of a runtime, compared with the time of the simulation.
#[derive(Clone, Copy)]
pub struct LocalClock {
    origin: Instant,
    /// The time of the simulation at `origin`.
    since: Duration,
    /// The number of seconds of this clock in a second of the simulation.
    rate: f64,
}

impl LocalClock {
    /// Returns the clock of the current runtime, which has the time `since` of the simulation.
    pub fn new(since: Duration, rate: f64) -> Self {
        Self { origin: Instant::now(), since, rate }
    }

    /// Returns the time of the simulation. Call it within the runtime.
    pub fn now(self) -> Duration {
        self.since + self.origin.elapsed().div_f64(self.rate)
    }

    /// Returns the time of this clock at a time of the simulation.
    fn local(self, at: Duration) -> Instant {
        self.origin + at.saturating_sub(self.since).mul_f64(self.rate)
    }

    /// Runs the current runtime until a time of the simulation.
    pub async fn run_until(self, at: Duration) {
        sleep_until(self.local(at)).await;
    }
}

/// A process on a machine.
struct Process {
    runtime: Runtime,
    clock: LocalClock,
    replica: Replica,
}

pub struct Machine {
    rate: f64,
    /// How far the wall clock is ahead of the monotonic clock.
    pub wall: Duration,
    random: Rng,
    process: Option<Process>,
    is_suspended: bool,
}

impl Machine {
    pub fn new(rate: f64, seed: u64) -> Self {
        let wall = Duration::from_secs(30);
        Self { rate, wall, random: Rng::with_seed(seed), process: None, is_suspended: false }
    }

    /// Returns the replica that runs on this machine.
    pub fn replica(&mut self) -> Option<&mut Replica> {
        self.process.as_mut().map(|process| &mut process.replica)
    }

    pub fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// Starts a process, in which `start` creates the replica.
    pub fn start(&mut self, at: Duration, start: impl FnOnce(LocalClock) -> Replica) {
        self.prepare();
        let runtime = runtime();
        let (clock, replica) = runtime.block_on(async {
            let clock = LocalClock::new(at, self.rate);
            (clock, start(clock))
        });
        self.process = Some(Process { runtime, clock, replica });
    }

    /// Runs the process until a time of the simulation, unless it is suspended.
    pub fn run_until(&mut self, at: Duration) {
        self.prepare();
        if let Some(Process { runtime, clock, .. }) = &self.process
            && !self.is_suspended
        {
            runtime.block_on(clock.run_until(at));
        }
    }

    /// Ends the process, without a turn for its tasks.
    pub fn kill(&mut self) {
        self.is_suspended = false;
        if let Some(Process { runtime, replica, .. }) = self.process.take() {
            // Destructors read the clock.
            let handle = runtime.handle().clone();
            let _entered = handle.enter();
            drop(replica);
            drop(runtime);
        }
    }

    /// Suspends the process. Its clocks go on.
    pub fn suspend(&mut self) {
        self.prepare();
        if let Some(Process { runtime, .. }) = &self.process {
            runtime.block_on(async {
                for _ in 0..TURNS {
                    yield_now().await;
                }
            });
            self.is_suspended = true;
        }
    }

    /// Resumes the process at a time of the simulation.
    pub fn resume(&mut self, at: Duration) {
        self.prepare();
        if let Some(Process { runtime, clock, .. }) = &self.process
            && self.is_suspended
        {
            runtime.block_on(async {
                let until = clock.local(at);
                advance(until.saturating_duration_since(Instant::now())).await;
            });
        }
        self.is_suspended = false;
    }

    /// Sets what belongs to the thread, and not to a runtime, before a turn of this machine.
    fn prepare(&mut self) {
        set_wall_clock(0, self.wall);
        // Libraries may draw from the generator of the thread, in any order.
        fastrand::seed(self.random.u64(..));
        simulate(self.random.u64(..));
    }
}
