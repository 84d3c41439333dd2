//! Times that users choose.

use std::time::Duration;

/// Longer than anybody waits, and short enough that no clock overflows.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How often something is done again. Never by 0, as in client-go, nor by what no clock reaches.
pub(crate) fn period(chosen: Duration) -> Option<Duration> {
    (!chosen.is_zero() && chosen < FAR).then_some(chosen)
}
