//! Request bodies that cannot be cloned.
//!
//! Inside `send`, kube's default client repeats a request that was answered with 429, 503 or 504,
//! up to 15 times and for minutes. A reflector itself decides when to repeat a request, and from
//! which version, so it needs the first response. The client can repeat only a request that it can
//! clone. The body of a response cannot be cloned, so the reflector's requests are sent with the
//! empty body of a response.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// A factory of empty bodies that cannot be cloned.
pub(super) struct Unclonable(Client);

impl Unclonable {
    /// Creates the factory. It must be called within a tokio runtime, since the client spawns a
    /// task.
    pub(super) fn new() -> Self {
        let empty =
            |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
        Self(Client::new(service_fn(empty), "default"))
    }

    pub(super) async fn body(&self) -> kube::Result<Body> {
        Ok(self.0.send(Request::new(Body::empty())).await?.into_body())
    }
}
