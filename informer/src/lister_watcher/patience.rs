//! Reading what a server sends without a pause, in few pieces.
//!
//! A body's bytes come record by record of TLS, of which each wakes the connection's task, and that whoever reads the body, which
//! wakes the other again: for a list of 100 MB that is half of what reading it takes. So who has caught up with a long list lets
//! some of it come, and then reads all that has. (Of one list of 100,000 objects, on two cores: 2,000 calls of futex for 15,000 when
//! listed, 4,000 for 32,000 when streamed.)

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use kube::client::Body;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::RequestError;
use super::body::next_bytes;

/// What a socket has room for comes in that time from a fast server.
const PAUSE: Duration = Duration::from_millis(2);
/// So many turns are left to others, the connection's task among them, before there is nothing to read.
const TURNS: usize = 3;
/// After a pause there is as much, or it was in vain: the task has not come to its turn, somewhere else, and would wait as well.
const WORTH_IT: usize = 3;
/// Before the first pause so much comes, and after one in vain.
const UNPAUSED: usize = 64;

/// How a list is read; in pieces of what has come.
pub(super) struct Patience {
    since_pause: usize,
    /// So many come before there is a pause again.
    unpaused: usize,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { since_pause: WORTH_IT, unpaused: UNPAUSED }
    }

    /// The next bytes of a body; none at its end. Dropped, it loses nothing.
    pub(super) async fn next_bytes(&mut self, body: &mut Body) -> Result<Option<Bytes>, RequestError> {
        if self.unpaused == 0 {
            for _ in 0..TURNS {
                if let Some(next) = next_bytes(body).now_or_never() {
                    self.since_pause += 1;
                    return next;
                }
                yield_now().await;
            }
            if self.since_pause < WORTH_IT {
                self.unpaused = UNPAUSED;
            } else {
                sleep(PAUSE).await;
            }
            self.since_pause = 0;
        }
        let next = next_bytes(body).await;
        self.unpaused = self.unpaused.saturating_sub(1);
        self.since_pause += 1;
        next
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::{Stream, StreamExt, stream};
    use http::{Request, Response};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use kube::Client;
    use kube::client::Body;
    use parking_lot::Mutex;
    use tokio::task::yield_now;
    use tokio::time::{Instant, sleep};
    use tower::service_fn;

    use super::{PAUSE, Patience, TURNS, UNPAUSED};

    const FRAMES: usize = 10 * UNPAUSED;

    /// How long it takes to read all of it.
    async fn reading(frames: impl Stream<Item = usize> + Send + 'static) -> Duration {
        let frames = frames.map(|number| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![0; number]))));
        let frames = Mutex::new(Some(StreamBody::new(frames)));
        let answer = move |_: Request<Body>| {
            let frames = frames.lock().take().expect("it is asked once");
            async { Ok::<_, Infallible>(Response::new(frames)) }
        };
        let request = Request::get("/").body(Body::empty()).expect("it is one");
        let answer = Client::new(service_fn(answer), "default").send(request).await.expect("it answers");
        let mut body = answer.into_body();
        let (mut patience, began, mut read) = (Patience::new(), Instant::now(), 0);
        while let Some(bytes) = patience.next_bytes(&mut body).await.expect("none of it is broken") {
            assert_eq!(bytes.len(), read, "in order, and nothing is lost");
            read += 1;
        }
        assert_eq!(read, FRAMES);
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_there_is_read_at_once() {
        assert_eq!(reading(stream::iter(0..FRAMES)).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_few_turns_is_waited_for_now_and_then_only() {
        let slow = stream::iter(0..FRAMES).then(|number| async move {
            for _ in 0..2 * TURNS {
                yield_now().await;
            }
            number
        });
        let most = u32::try_from(FRAMES / UNPAUSED).unwrap();
        // A timer of tokio's has a millisecond more.
        assert!(reading(slow).await <= most * (PAUSE + Duration::from_millis(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_caught_up_lets_more_come() {
        // The one behind the first that can be paused before is there soon after it is asked for.
        let soon = stream::iter(0..FRAMES).then(|number| async move {
            if number == UNPAUSED {
                sleep(Duration::from_micros(10)).await;
            }
            number
        });
        assert!(reading(soon).await >= PAUSE);
    }
}
