//! Elections on a real API server. Two candidates, each a process of its own (`candidate`,
//! `process`), compete for a lease. The leader writes its fencing token into two objects, one with
//! and one without the `resourceVersion`: each as fast as the server answers, or once, by a
//! controller (`reconciler`). A trial (`trial`) inflicts a fault (`fault`) on one lease, and ends
//! when the other candidate has led and written.
//!
//! A judge (`judge`) then reads the watch history of the lease and of the two objects, and nothing
//! else. The history (`history`) comes from a watch of etcd (`recorder`), which orders all changes
//! by their versions. A watch through the API server would lose the changes around its restart.
//!
//! This proves that in these runs no term wrote with a `resourceVersion` after a later term had
//! written. It also counts late writes, those after a later term has begun. It says nothing about
//! other timings, clocks of several machines, or an etcd with several members. Times and numbers of
//! late writes are those of one run.

pub mod candidate;
pub mod fault;
mod figures;
mod history;
mod judge;
mod process;
mod reconciler;
mod recorder;
mod trial;

pub use figures::Figures;
pub use recorder::Recorder;
pub use trial::Batch;

use std::time::Duration;

/// The options of a candidate, as its command line arguments.
#[derive(Clone, Copy, clap::Args)]
pub struct CandidateOptions {
    #[command(flatten)]
    pub timing: Timing,
    /// Write each object once in a term, by a controller, instead of as fast as the server answers
    #[arg(long)]
    pub once: bool,
    /// Release the lease after SIGTERM
    #[arg(long)]
    pub release_on_cancel: bool,
}

impl CandidateOptions {
    /// Returns the arguments that contain these options.
    fn arguments(self) -> Vec<String> {
        let mut arguments = Vec::from(self.timing.arguments());
        for (is_set, flag) in
            [(self.once, "--once"), (self.release_on_cancel, "--release-on-cancel")]
        {
            if is_set {
                arguments.push(flag.to_owned());
            }
        }
        arguments
    }
}

/// The durations of an election.
#[derive(Clone, Copy, clap::Args)]
pub struct Timing {
    #[arg(long, value_parser = milliseconds)]
    pub lease_duration: Duration,
    #[arg(long, value_parser = milliseconds)]
    pub renew_deadline: Duration,
    #[arg(long, value_parser = milliseconds)]
    pub retry_period: Duration,
}

impl Timing {
    /// Durations that are as short as a loaded machine permits.
    pub const SHORT: Self = Self::of(3_000, 2_000, 400);
    /// The default durations of an elector.
    pub const DEFAULT: Self = Self::of(15_000, 10_000, 2_000);

    const fn of(lease_duration: u64, renew_deadline: u64, retry_period: u64) -> Self {
        Self {
            lease_duration: Duration::from_millis(lease_duration),
            renew_deadline: Duration::from_millis(renew_deadline),
            retry_period: Duration::from_millis(retry_period),
        }
    }

    /// Returns the arguments that contain these durations.
    fn arguments(self) -> [String; 3] {
        [
            format!("--lease-duration={}", self.lease_duration.as_millis()),
            format!("--renew-deadline={}", self.renew_deadline.as_millis()),
            format!("--retry-period={}", self.retry_period.as_millis()),
        ]
    }
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}
