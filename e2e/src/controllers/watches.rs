//! A client whose watches of pods and secrets can be cut. Requests for new ones are then held, and
//! later answered with "expired". Watches of config maps continue, so config maps are not listed
//! again. A reconcile after a missed deletion of a pod or secret therefore has only one possible
//! trigger: the notification of that deletion.

use std::sync::Arc;
use std::task::{Context, Poll};

use deltafifo::BoxError;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::StreamExt;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::client::{Body, Client, ClientBuilder, DynBody};
use kube::core::response::Status;
use serde_json::json;
use tokio::sync::watch;
use tower::Service;
use tower::layer::layer_fn;

use crate::servers;

type Answer = Response<UnsyncBoxBody<bytes::Bytes, BoxError>>;

/// A switch that cuts and restores the watches of a client.
#[derive(Default)]
pub struct Watches {
    state: Arc<watch::Sender<CutState>>,
}

#[derive(Default)]
struct CutState {
    is_cut: bool,
    /// The number of watch requests that are held during the cut.
    held: usize,
    /// The number of watches that were opened since the cut ended. The client opens each of them
    /// after a list.
    after_cut: usize,
}

impl Watches {
    /// Creates a client of the API server at this port.
    pub fn client(&self, port: u16) -> Result<Client, BoxError> {
        let layer = layer_fn(|inner| Cuttable { inner, state: self.state.clone() });
        Ok(ClientBuilder::try_from(servers::user(port)?)?.with_layer(&layer).build())
    }

    /// Cuts the watches, and waits until the client has requested `watches` watches again.
    pub async fn cut(&self, watches: usize) {
        self.state.send_modify(|state| state.is_cut = true);
        // `wait_for` fails only if the sender is gone, and `self` owns it.
        let _ = self.state.subscribe().wait_for(|state| state.held >= watches).await;
    }

    /// Answers the held requests with "expired", and waits until the client has then opened
    /// `watches` watches.
    pub async fn expire(&self, watches: usize) {
        self.state.send_modify(|state| (state.is_cut, state.after_cut) = (false, 0));
        let _ = self.state.subscribe().wait_for(|state| state.after_cut >= watches).await;
    }
}

struct Cuttable<S> {
    inner: S,
    state: Arc<watch::Sender<CutState>>,
}

impl<S> Service<Request<Body>> for Cuttable<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (state, is_watch) = (self.state.clone(), is_cuttable(request.uri()));
        if is_watch && state.borrow().is_cut {
            return async move {
                state.send_modify(|state| state.held += 1);
                let _ = state.subscribe().wait_for(|state| !state.is_cut).await;
                state.send_modify(|state| state.held -= 1);
                Ok(expired())
            }
            .boxed();
        }
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await?;
            state.send_modify(|state| state.after_cut += usize::from(is_watch));
            if !is_watch {
                return Ok(answer.map(BodyExt::boxed_unsync));
            }
            let cut = async move {
                let _ = state.subscribe().wait_for(|state| state.is_cut).await;
            };
            Ok(answer.map(|body| {
                StreamBody::new(BodyStream::new(body).take_until(cut.boxed())).boxed_unsync()
            }))
        }
        .boxed()
    }
}

fn is_cuttable(uri: &Uri) -> bool {
    let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
    is_watch && ["/pods", "/secrets"].iter().any(|resource| uri.path().ends_with(resource))
}

/// Returns the response of a server that no longer has the requested version: an ERROR event.
fn expired() -> Answer {
    let status = Status::failure("too old resource version", "Expired").with_code(410);
    let event = json!({ "type": "ERROR", "object": status });
    Response::new(Full::from(format!("{event}\n")).map_err(|never| match never {}).boxed_unsync())
}
