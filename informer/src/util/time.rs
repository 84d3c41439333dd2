//! Durations that users configure.

use std::time::Duration;

/// A limit for durations: longer than any useful wait, and short enough that no clock overflows.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the period of a repeated action. Returns `None` (never) for 0, as in client-go, and for
/// periods of 30 years and more, which a clock could not represent.
pub(crate) fn period(chosen: Duration) -> Option<Duration> {
    (!chosen.is_zero() && chosen < FAR).then_some(chosen)
}
