//! A cut between a client and the server, which makes each client relist in its own way. The
//! events of a watch are held back while objects change. Then the watch ends with the error of a
//! server that does not know the watch's version any more.
//!
//! The cut is above HTTP and below the client, and affects only watches: lists come directly from
//! the server.

use std::future::ready;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyStream, StreamBody};
use kube::client::{ClientBuilder, DynBody};
use kube::{Client, Config};
use tokio::sync::watch;
use tower::layer::layer_fn;
use tower::{BoxError, Service};

use crate::watch_requests::{EXPIRED, is_watch};

/// A switch that cuts a client's watches. Clones share their phase.
#[derive(Clone, Default)]
pub(super) struct Cut(watch::Sender<Phase>);

/// The phases of a cut, in order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// No watch has been opened.
    #[default]
    Unwatched,
    Open,
    Held,
    /// The held watches end now, with the error of an expired version. If no watch is held, the
    /// next watch that is opened ends with this error. The first watch that ends changes the phase
    /// to `Reported`.
    Expired,
    /// A watch has ended with the error of an expired version. Watches that are opened later are
    /// not cut.
    Reported,
}

impl Cut {
    /// Creates a client whose watches can be cut.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        let layer = layer_fn(|inner| Cuttable { inner, cut: self.clone() });
        Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
    }

    /// Waits until a watch has been opened, and holds back the events of all watches from then on.
    pub async fn hold(&self) {
        // Cannot fail: `self` is the sender.
        let _ = self.0.subscribe().wait_for(|phase| *phase >= Phase::Open).await;
        self.0.send_replace(Phase::Held);
    }

    /// Ends the held watch with the error of an expired version. If that watch has already ended,
    /// the client's next watch ends with this error.
    pub fn expire(&self) {
        self.0.send_replace(Phase::Expired);
    }

    /// Returns the body of a watch, wrapped so that it can be cut.
    fn cuttable<B>(&self, body: B) -> UnsyncBoxBody<Bytes, BoxError>
    where
        B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        self.0.send_modify(|phase| *phase = (*phase).max(Phase::Open));
        // Subscribed first: the phase may change as soon as it is read.
        let (this, mut before, mut after) = (self.clone(), self.0.subscribe(), self.0.subscribe());
        if *before.borrow() == Phase::Reported {
            return UnsyncBoxBody::new(body);
        }
        let cut = async move {
            // Fails only if the sender is gone, together with the client that reads the body.
            let _ = before.wait_for(|phase| *phase > Phase::Open).await;
        };
        let end = async move {
            let was_cut = *after.borrow() > Phase::Open;
            if was_cut {
                let _ = after.wait_for(|phase| *phase >= Phase::Expired).await;
                this.0.send_replace(Phase::Reported);
            }
            was_cut.then(|| Ok(Frame::data(Bytes::from_static(EXPIRED))))
        };
        let frames = BodyStream::new(body).take_until(cut);
        // A watch that ends without a cut is unchanged.
        UnsyncBoxBody::new(StreamBody::new(frames.chain(stream::once(end).filter_map(ready))))
    }
}

struct Cuttable<S> {
    inner: S,
    cut: Cut,
}

impl<S> Service<Request<kube::client::Body>> for Cuttable<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<Box<DynBody>>>,
    S::Future: Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let is_cut = is_watch(&request);
        let (answer, cut) = (self.inner.call(request), self.cut.clone());
        Box::pin(async move {
            let body = |body| if is_cut { cut.cuttable(body) } else { UnsyncBoxBody::new(body) };
            Ok(answer.await?.map(body))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn body(text: &'static str) -> impl Body<Data = Bytes, Error = BoxError> + Send + 'static {
        Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {})
    }

    async fn text(body: UnsyncBoxBody<Bytes, BoxError>) -> Bytes {
        body.collect().await.expect("none of these breaks off").to_bytes()
    }

    #[tokio::test]
    async fn watches_of_the_cut_deliver_nothing_and_end_as_expired() {
        let cut = Cut::default();
        assert_eq!(cut.hold().now_or_never(), None, "it waits for a watch");
        assert_eq!(text(cut.cuttable(body("before"))).await, "before");
        let open = cut.cuttable(body("changes"));
        cut.hold().await;
        let reading = [open, cut.cuttable(body("changes"))].map(|body| tokio::spawn(text(body)));
        cut.expire();
        for read in reading {
            assert_eq!(read.await.expect("it does not panic"), EXPIRED);
        }
        assert_eq!(text(cut.cuttable(body("after"))).await, "after");
    }

    #[tokio::test]
    async fn watch_that_is_opened_after_the_cut_ends_as_expired_if_none_was_open() {
        let cut = Cut::default();
        drop(cut.cuttable(body("before")));
        cut.hold().await;
        cut.expire();
        assert_eq!(text(cut.cuttable(body("the cut"))).await, EXPIRED);
        assert_eq!(text(cut.cuttable(body("after"))).await, "after");
    }
}
