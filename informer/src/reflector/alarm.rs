//! A timeout that rarely expires, for waits that are repeated often.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::util::time::FAR;

/// A timeout that is cheap to postpone: a later time is only stored, and the timer is set to it
/// when the timer fires. Setting a timer takes the lock of all timers, and may wake the thread
/// that drives them.
pub(super) struct Alarm {
    at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Alarm {
    pub(super) fn at(at: Instant) -> Self {
        Self { at, timer: Box::pin(sleep_until(at)) }
    }

    pub(super) fn after(time: Duration) -> Self {
        Self::at(in_(time))
    }

    /// Sets the alarm to ring after `time`, counted from now.
    pub(super) fn set(&mut self, time: Duration) {
        self.at = in_(time);
        if self.at < self.timer.deadline() {
            self.timer.as_mut().reset(self.at);
        }
    }

    /// Waits until the alarm rings. Dropping the future loses nothing.
    pub(super) async fn rings(&mut self) {
        loop {
            if !self.timer.is_elapsed() {
                self.timer.as_mut().await;
            }
            if self.timer.deadline() >= self.at {
                return;
            }
            self.timer.as_mut().reset(self.at);
        }
    }
}

fn in_(time: Duration) -> Instant {
    Instant::now() + time.min(FAR)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::Alarm;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn alarm_rings_at_the_last_set_time() {
        let began = Instant::now();
        let mut alarm = Alarm::after(3 * SECOND);
        for _ in 0..3 {
            assert!(timeout(SECOND, alarm.rings()).await.is_err());
            alarm.set(3 * SECOND);
        }
        alarm.rings().await;
        assert_eq!(began.elapsed().as_secs(), 6);
        alarm.rings().await;
        assert_eq!(began.elapsed().as_secs(), 6, "the alarm keeps ringing");
        alarm.set(SECOND);
        alarm.rings().await;
        assert_eq!(began.elapsed().as_secs(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn alarm_can_be_set_to_an_earlier_time() {
        let began = Instant::now();
        let mut alarm = Alarm::after(Duration::MAX);
        sleep(SECOND).await;
        alarm.set(SECOND);
        alarm.rings().await;
        assert_eq!(began.elapsed().as_secs(), 2);
    }
}
