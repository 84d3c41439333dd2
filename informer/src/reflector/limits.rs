//! Time limits of a response that arrives in pieces: of each piece, and of the whole.

use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt};
use tokio::time::Instant;

use super::alarm::Alarm;
use crate::lister_watcher::{ObjectLimit, RequestError};
use crate::util::time::FAR;

/// The time limits of one response that arrives in pieces. Only time spent waiting for a piece
/// counts. At other times the reader may be waiting for room in the reflector's target, for which
/// the server is not responsible.
pub(super) struct Limits {
    /// The name of the response in errors.
    what: &'static str,
    /// The longest wait for a piece that [counts](Self::piece_counts) as progress.
    silence: Duration,
    began: Instant,
    /// The time by which the whole response must have arrived.
    end: Instant,
    /// The time at which the last piece arrived.
    last_arrival: Instant,
    /// The time spent waiting for pieces since the last one that counted.
    waited: Duration,
    /// The time at which the wait for the next piece began.
    waiting: Option<Instant>,
    alarm: Alarm,
    /// The progress of large objects that are incomplete.
    objects: ObjectLimit,
    /// The time that large objects had waited for shares of the budget when `end` was last
    /// postponed by such waits.
    shares_waited: Duration,
}

impl Limits {
    pub(super) fn new(
        what: &'static str,
        silence: Duration,
        end: Instant,
        objects: ObjectLimit,
    ) -> Self {
        let (now, silence) = (Instant::now(), silence.min(FAR));
        let (alarm, shares_waited) = (Alarm::after(silence), objects.waited());
        Self {
            what,
            silence,
            began: now,
            end,
            last_arrival: now,
            waited: Duration::ZERO,
            waiting: None,
            alarm,
            objects,
            shares_waited,
        }
    }

    /// Waits for a piece. If the future is dropped, the next call continues the wait.
    ///
    /// # Errors
    /// Fails with [`RequestError::Silent`] if nothing arrived for too long, and with
    /// [`RequestError::Endless`] if pieces arrived, but none that counts, or if the time of the
    /// whole response is over.
    pub(super) async fn wait<R>(
        &mut self,
        piece: impl Future<Output = R>,
    ) -> Result<R, RequestError> {
        let now = Instant::now();
        let mut waiting = *self.waiting.get_or_insert_with(|| {
            self.end += now - self.last_arrival;
            now
        });
        let mut piece = pin!(piece);
        let piece = loop {
            let due = self.end.min(waiting + self.silence.saturating_sub(self.waited));
            self.alarm.set(due.saturating_duration_since(Instant::now()));
            tokio::select! {
                biased;
                piece = piece.as_mut() => break piece,
                () = self.alarm.rings() => {}
            }
            // An incomplete object counts as progress while its bytes arrive or it waits for a
            // share.
            self.postpone_for_shares();
            let (now, left) = (Instant::now(), self.objects.left_of(self.silence));
            let Some(left) = left.filter(|_| now < self.end) else { return Err(self.exceeded()) };
            waiting = now.checked_sub(self.silence.saturating_sub(left)).unwrap_or(now);
            (self.waiting, self.waited) = (Some(waiting), Duration::ZERO);
        };
        self.last_arrival = Instant::now();
        self.postpone_for_shares();
        if self.last_arrival >= self.end {
            return Err(self.exceeded());
        }
        self.waited += self.last_arrival - waiting;
        self.waiting = None;
        Ok(piece)
    }

    /// Waits for the next piece of a response, and records it as progress. Returns `None` at the
    /// end of the response, which is no progress.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(super) async fn next<S: Stream + Unpin>(
        &mut self,
        pieces: &mut S,
    ) -> Result<Option<S::Item>, RequestError> {
        let piece = self.wait(pieces.next()).await?;
        if piece.is_some() {
            self.piece_counts();
        }
        Ok(piece)
    }

    /// Postpones the end by the time that objects waited for shares of the budget, for which the
    /// server is not responsible.
    fn postpone_for_shares(&mut self) {
        let waited = self.objects.waited();
        self.end += waited.saturating_sub(self.shares_waited);
        self.shares_waited = waited;
    }

    /// Records that the last piece was progress.
    pub(super) fn piece_counts(&mut self) {
        self.waited = Duration::ZERO;
    }

    /// Runs `work` during a wait, and excludes its time from the limits.
    pub(super) async fn exclude<R>(&mut self, work: impl Future<Output = R>) -> R {
        let began = Instant::now();
        let done = work.await;
        let took = began.elapsed();
        self.end += took;
        if let Some(waiting) = &mut self.waiting {
            *waiting += took;
        }
        done
    }

    fn exceeded(&self) -> RequestError {
        if self.waited.is_zero() && Instant::now() < self.end {
            RequestError::Silent { after: self.silence }
        } else {
            RequestError::Endless { what: self.what, after: self.began.elapsed() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::Limits;
    use crate::lister_watcher::{ObjectLimit, RequestError};

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> Limits {
        Limits::new("it", 10 * SECOND, Instant::now() + 60 * SECOND, ObjectLimit::default())
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_wait_continues_in_the_next() {
        let (began, mut limits) = (Instant::now(), limits());
        for _ in 0..4 {
            assert!(timeout(2 * SECOND, limits.wait(pending::<()>())).await.is_err());
        }
        let error = limits.wait(pending::<()>()).await.unwrap_err();
        assert!(matches!(error, RequestError::Silent { after } if after == 10 * SECOND), "{error}");
        assert_eq!(began.elapsed(), 10 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn empty_chunks_end_the_wait_without_counting_as_silence() {
        let (began, mut limits) = (Instant::now(), limits());
        for _ in 0..2 {
            limits.wait(sleep(4 * SECOND)).await.unwrap();
        }
        let error = limits.wait(sleep(4 * SECOND)).await.unwrap_err();
        assert!(matches!(error, RequestError::Endless { .. }), "{error}");
        assert_eq!(began.elapsed(), 10 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn total_time_limits_all_chunks_together() {
        let (began, mut limits) = (Instant::now(), limits());
        let error = loop {
            match limits.wait(sleep(7 * SECOND)).await {
                Ok(()) => limits.piece_counts(),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, RequestError::Endless { after, .. } if after == 60 * SECOND),
            "{error}"
        );
        assert_eq!(began.elapsed(), 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_a_waiter_does_not_count() {
        let mut limits = limits();
        limits.wait(ready(())).await.unwrap();
        sleep(100 * SECOND).await;
        assert!(timeout(SECOND, limits.wait(pending::<()>())).await.is_err());
        limits.exclude(sleep(100 * SECOND)).await;
        limits.wait(sleep(8 * SECOND)).await.unwrap();
        limits.piece_counts();
        assert!(limits.wait(sleep(11 * SECOND)).await.is_err());
    }
}
