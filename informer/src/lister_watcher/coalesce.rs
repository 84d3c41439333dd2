//! Reads a long response body in few, large chunks.
//!
//! rustls delivers a body one TLS record at a time. Each record wakes the connection's task, which
//! wakes the reader, which wakes the connection's task again; for a 100 MB list these wake-ups are
//! half of the CPU time. A reader that has consumed all that was received therefore sleeps for 2
//! ms, and then drains what has arrived. (100,000 objects of 1 kB on two cores: 1,900 futex calls
//! instead of 15,000 for a list, 4,400 instead of 32,000 for a streamed list.)

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kube::client::Body;
use tokio::time::{Instant, sleep};

use super::RequestError;
use super::body::next_bytes;

/// The time that a reader sleeps when it has caught up. A fast server fills the socket's buffer in
/// this time.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest wait for a chunk that is not counted as a wait: the chunk had arrived, and the
/// thread that passes it on was only a moment late. A chunk that the first poll returns was not
/// waited for, however long that poll took: a body may be produced, decrypted or decompressed in
/// it.
const READY_WITHIN: Duration = Duration::from_micros(50);
/// The least number of bytes that must follow a pause without another wait. With fewer, pausing is
/// suspended: the reader waits for another thread, or the server is slow. So a list that arrives
/// faster than 20 MB/s without pauses still arrives at 20 MB/s or faster with them.
const MIN_GAIN: usize = 64 << 10;
/// The number of chunks that are read before the first pause, and after pausing was suspended.
const UNPAUSED: usize = 64;

/// The state of a reader of one body.
pub(super) struct Coalescer {
    has_caught_up: bool,
    /// The number of bytes read since the last pause.
    since_pause: usize,
    /// The number of chunks to read before pauses are allowed again.
    unpaused: usize,
}

impl Coalescer {
    pub(super) fn new() -> Self {
        Self { has_caught_up: false, since_pause: MIN_GAIN, unpaused: UNPAUSED }
    }

    /// Reads the next bytes of a body. Returns `None` at the end of the body. Dropping the future
    /// loses nothing.
    pub(super) async fn next_bytes(
        &mut self,
        body: &mut Body,
    ) -> Result<Option<Bytes>, RequestError> {
        if self.has_caught_up && self.unpaused == 0 {
            if self.since_pause < MIN_GAIN {
                self.unpaused = UNPAUSED;
            } else {
                sleep(PAUSE).await;
            }
            self.since_pause = 0;
        }
        let mut reading = pin!(next_bytes(body));
        let next = match poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
            Poll::Ready(next) => {
                self.has_caught_up = false;
                next
            }
            Poll::Pending => {
                let waited_from = Instant::now();
                let next = reading.await;
                self.has_caught_up = waited_from.elapsed() > READY_WITHIN;
                next
            }
        };
        self.since_pause += next.as_ref().map_or(0, |next| next.as_ref().map_or(0, Bytes::len));
        self.unpaused = self.unpaused.saturating_sub(1);
        next
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use bytes::Bytes;
    use deltafifo::locks::Mutex;
    use futures_util::{FutureExt, Stream, StreamExt, stream};
    use http::{Request, Response};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use kube::Client;
    use kube::client::Body;
    use tokio::time::{Instant, advance, sleep};
    use tower::service_fn;

    use super::{Coalescer, MIN_GAIN, PAUSE, UNPAUSED};

    const FRAMES: usize = 10 * UNPAUSED;

    /// Returns the time that reading the whole body takes. Frame `n` has `least + n` bytes.
    async fn reading_of(
        least: usize,
        frames: impl Stream<Item = usize> + Send + 'static,
    ) -> Duration {
        let frame = move |number| Frame::data(Bytes::from(vec![0; least + number]));
        let frames = frames.map(move |number| Ok::<_, Infallible>(frame(number)));
        let frames = Mutex::new(Some(StreamBody::new(frames)));
        let answer = move |_: Request<Body>| {
            let frames = frames.lock().take().expect("one request");
            async { Ok::<_, Infallible>(Response::new(frames)) }
        };
        let request = Request::get("/").body(Body::empty()).expect("a valid request");
        let answer =
            Client::new(service_fn(answer), "default").send(request).await.expect("a response");
        let mut body = answer.into_body();
        let (mut coalescer, began, mut read) = (Coalescer::new(), Instant::now(), 0);
        while let Some(bytes) = coalescer.next_bytes(&mut body).await.expect("the body is complete")
        {
            assert_eq!(bytes.len(), least + read, "in order, and nothing is lost");
            read += 1;
        }
        assert_eq!(read, FRAMES);
        began.elapsed()
    }

    async fn reading(frames: impl Stream<Item = usize> + Send + 'static) -> Duration {
        reading_of(0, frames).await
    }

    #[tokio::test(start_paused = true)]
    async fn buffered_chunks_are_read_without_pausing() {
        assert_eq!(reading(stream::iter(0..FRAMES)).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn large_chunks_that_the_poll_itself_produces_are_read_without_pausing() {
        let each = Duration::from_micros(100);
        let produced = stream::iter(0..FRAMES).inspect(move |_| {
            // Its first poll moves the clock.
            let _ = advance(each).now_or_never();
        });
        let frames = u32::try_from(FRAMES).unwrap();
        assert_eq!(reading_of(MIN_GAIN, produced).await, frames * each);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_server_suspends_pausing() {
        let each = Duration::from_millis(1);
        let slow = stream::iter(0..FRAMES).then(move |number| async move {
            sleep(each).await;
            number
        });
        let (frames, pauses) =
            (u32::try_from(FRAMES).unwrap(), u32::try_from(FRAMES / UNPAUSED).unwrap());
        assert!(reading(slow).await <= frames * each + pauses * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn caught_up_reader_pauses_for_more_chunks() {
        // All but one chunk are ready at once.
        let waited = Duration::from_millis(1);
        let soon = stream::iter(0..FRAMES).then(move |number| async move {
            if number == UNPAUSED {
                sleep(waited).await;
            }
            number
        });
        assert_eq!(reading(soon).await, waited + PAUSE);
    }
}
