//! The durations of elections and of groups of replicas.

use std::num::ParseIntError;
use std::time::Duration;

/// The durations of an election or a group, as command line arguments.
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
    pub fn arguments(self) -> [String; 3] {
        [
            format!("--lease-duration={}", self.lease_duration.as_millis()),
            format!("--renew-deadline={}", self.renew_deadline.as_millis()),
            format!("--retry-period={}", self.retry_period.as_millis()),
        ]
    }
}

fn milliseconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_millis)
}
