//! Reading what a server sends without a pause, in few pieces.
//!
//! A body's bytes come record by record of TLS, of which each wakes the connection's task, and
//! that whoever reads the body, which wakes the other again: for a list of 100 MB that is half of
//! what reading it takes. So who has caught up with a long list lets some of it come, and then
//! reads all that has. (100,000 objects of 1 kB on two cores: 1,900 calls of futex instead of
//! 15,000 when they are listed, 4,400 instead of 32,000 when streamed.)

use std::time::Duration;

use bytes::Bytes;
use kube::client::Body;
use tokio::time::{Instant, sleep};

use super::RequestError;
use super::body::next_bytes;

/// What a socket has room for comes in that time from a fast server.
const PAUSE: Duration = Duration::from_millis(2);
/// What takes longer was waited for: so much has been read as there was.
const AT_ONCE: Duration = Duration::from_micros(50);
/// After a pause so many bytes come without another wait, or it was in vain: it is not the server
/// that is waited for, but a thread, or the server is slow. So whatever is waited for, a list is
/// read at 20 MB a second, if it comes so fast.
const WORTH_IT: usize = 64 << 10;
/// Before the first pause so many pieces come, and after one in vain.
const UNPAUSED: usize = 64;

/// How a list is read.
pub(super) struct Patience {
    has_caught_up: bool,
    /// Bytes.
    since_pause: usize,
    /// So many pieces come before there is a pause again.
    unpaused: usize,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { has_caught_up: false, since_pause: WORTH_IT, unpaused: UNPAUSED }
    }

    /// The next bytes of a body; none at its end. Dropped, it loses nothing.
    pub(super) async fn next_bytes(
        &mut self,
        body: &mut Body,
    ) -> Result<Option<Bytes>, RequestError> {
        if self.has_caught_up && self.unpaused == 0 {
            if self.since_pause < WORTH_IT {
                self.unpaused = UNPAUSED;
            } else {
                sleep(PAUSE).await;
            }
            self.since_pause = 0;
        }
        let asked = Instant::now();
        let next = next_bytes(body).await;
        self.has_caught_up = asked.elapsed() > AT_ONCE;
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
    use futures_util::{Stream, StreamExt, stream};
    use http::{Request, Response};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use kube::Client;
    use kube::client::Body;
    use tokio::time::{Instant, sleep};
    use tower::service_fn;

    use super::{PAUSE, Patience, UNPAUSED};

    const FRAMES: usize = 10 * UNPAUSED;

    /// Returns the time that reading the whole body takes.
    async fn reading(frames: impl Stream<Item = usize> + Send + 'static) -> Duration {
        let frames =
            frames.map(|number| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![0; number]))));
        let frames = Mutex::new(Some(StreamBody::new(frames)));
        let answer = move |_: Request<Body>| {
            let frames = frames.lock().take().expect("one request");
            async { Ok::<_, Infallible>(Response::new(frames)) }
        };
        let request = Request::get("/").body(Body::empty()).expect("a valid request");
        let answer =
            Client::new(service_fn(answer), "default").send(request).await.expect("a response");
        let mut body = answer.into_body();
        let (mut patience, began, mut read) = (Patience::new(), Instant::now(), 0);
        while let Some(bytes) = patience.next_bytes(&mut body).await.expect("the body is complete")
        {
            assert_eq!(bytes.len(), read, "in order, and nothing is lost");
            read += 1;
        }
        assert_eq!(read, FRAMES);
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn buffered_chunks_are_read_without_pausing() {
        assert_eq!(reading(stream::iter(0..FRAMES)).await, Duration::ZERO);
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
