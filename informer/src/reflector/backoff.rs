//! The wait before a failed request is attempted again. The defaults are from client-go's
//! reflector: 0.8 s, doubled up to 30 s, each wait lengthened by up to 100 % at random, and 0.8 s
//! again after two minutes without a failure.

use std::time::Duration;

use tokio::time::Instant;

use crate::util::random::random_for;
use crate::util::time::FAR;

/// The waits between attempts that fail.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    quiet: Duration,
    next: Duration,
    last: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30), Duration::from_secs(120))
    }
}

impl Backoff {
    /// Creates a backoff that starts with `first`, doubles up to `most`, and starts with `first`
    /// again if the last wait was longer than `quiet` ago.
    #[must_use]
    pub fn new(first: Duration, most: Duration, quiet: Duration) -> Self {
        let (first, most) = (first.min(FAR), most.min(FAR));
        Self { first, most, quiet, next: first, last: None }
    }

    /// Returns the next wait: the backoff, or the wait that the server asked for with
    /// `retry_after`, if that is longer. `retry_after` counts up to [`MOST_ASKED`] only.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let now = Instant::now();
        if self.last.replace(now).is_some_and(|last| now.duration_since(last) > self.quiet) {
            self.next = self.first;
        }
        let wait = self.next.mul_f64(1.0 + random_for("backoff").f64());
        self.next = (self.next * 2).min(self.most);
        wait.max(retry_after.unwrap_or_default().min(MOST_ASKED))
    }
}

/// The longest wait that a server can ask for. A longer `retry_after` counts as this one.
const MOST_ASKED: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, FAR};

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_the_maximum_and_restart_after_a_quiet_time() {
        let mut backoff = Backoff::default();
        let seconds = |wait: Duration| wait.as_secs_f64();
        for least in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let wait = seconds(backoff.next(None));
            assert!((least..=2.0 * least).contains(&wait), "{wait} for {least}");
        }
        tokio::time::advance(Duration::from_secs(120)).await;
        assert!(seconds(backoff.next(None)) >= 30.0, "the quiet time was too short");
        tokio::time::advance(Duration::from_secs(121)).await;
        assert!(seconds(backoff.next(None)) <= 1.6);
    }

    #[test]
    fn largest_times_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::MAX, Duration::MAX);
        for _ in 0..2 {
            assert!(backoff.next(None) >= FAR);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_waited_for() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(Some(Duration::from_secs(20))), Duration::from_secs(20));
        assert!(backoff.next(Some(Duration::from_millis(1))) >= Duration::from_millis(1600));
        assert_eq!(backoff.next(Some(Duration::MAX)), Duration::from_secs(300));
    }
}
