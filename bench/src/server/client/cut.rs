//! A cut between a client and the server, for a relist that each client makes by its own means.
//! What a watch would tell is held back while objects change, and then it ends as a server ends
//! one whose version it does not know any more.
//!
//! It is above HTTP and below the client, and only in the way of watches: a relist comes from the
//! server as it is.

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

const EXPIRED: &[u8] = b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
    \"status\":\"Failure\",\"message\":\"too old resource version\",\"reason\":\"Expired\",\"code\":410}}\n";

/// See the module. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Cut(watch::Sender<State>);

#[derive(Clone, Copy, Default)]
struct State {
    phase: Phase,
    /// Whether a watch was opened.
    is_watching: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    Held,
    /// The end has come, and nobody was told of it: a watch that is just being opened, or the
    /// next, will be.
    Expired,
    /// Nothing is cut any more.
    Told,
}

impl Cut {
    /// A client whose watches can be cut off.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        let layer = layer_fn(|inner| Cuttable { inner, cut: self.clone() });
        Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
    }

    /// Waits until there is a watch, which tells nothing from now on.
    pub async fn hold(&self) {
        // It fails only when the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(|state| state.is_watching).await;
        self.0.send_modify(|state| state.phase = Phase::Held);
    }

    /// Ends what was held, or the next that is opened, should that have ended by itself.
    pub fn expire(&self) {
        self.0.send_modify(|state| state.phase = Phase::Expired);
    }

    /// The body of a watch.
    fn cuttable<B>(&self, body: B) -> UnsyncBoxBody<Bytes, BoxError>
    where
        B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        self.0.send_modify(|state| state.is_watching = true);
        // Others may be done with all that follows from this watch before the next line.
        let (this, mut before, mut after) = (self.clone(), self.0.subscribe(), self.0.subscribe());
        if before.borrow().phase == Phase::Told {
            return UnsyncBoxBody::new(body);
        }
        let cut = async move {
            // It fails only when the sender is gone: with the client, and then nobody reads.
            let _ = before.wait_for(|state| state.phase != Phase::Open).await;
        };
        let end = async move {
            let was_cut = after.borrow().phase != Phase::Open;
            if was_cut {
                let _ = after
                    .wait_for(|state| matches!(state.phase, Phase::Expired | Phase::Told))
                    .await;
                this.0.send_modify(|state| state.phase = Phase::Told);
            }
            was_cut.then(|| Ok(Frame::data(Bytes::from_static(EXPIRED))))
        };
        let frames = BodyStream::new(body).take_until(cut);
        // One that ends by itself ends as it is.
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
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|parameter| parameter == "watch=true");
        let (answer, cut) = (self.inner.call(request), self.cut.clone());
        Box::pin(async move {
            let body = |body| if is_watch { cut.cuttable(body) } else { UnsyncBoxBody::new(body) };
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
    async fn what_is_not_cut_ends_as_it_is() {
        let cut = Cut::default();
        assert_eq!(text(cut.cuttable(body("before"))).await, "before");
        cut.hold().await;
        cut.expire();
        assert_eq!(text(cut.cuttable(body("the cut"))).await, EXPIRED);
        assert_eq!(text(cut.cuttable(body("after"))).await, "after");
    }

    #[tokio::test]
    async fn what_is_open_or_opened_before_the_end_tells_nothing_more_and_ends_as_expired() {
        let cut = Cut::default();
        let open = cut.cuttable(body("changes"));
        cut.hold().await;
        let reading = [open, cut.cuttable(body("changes"))].map(|body| tokio::spawn(text(body)));
        cut.expire();
        for read in reading {
            assert_eq!(read.await.expect("it does not panic"), EXPIRED);
        }
    }

    #[tokio::test]
    async fn a_cut_waits_for_a_watch() {
        let cut = Cut::default();
        assert_eq!(cut.hold().now_or_never(), None);
        let _open = cut.cuttable(body("changes"));
        assert_eq!(cut.hold().now_or_never(), Some(()));
    }
}
