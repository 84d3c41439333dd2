//! Request bodies that cannot be cloned.
//!
//! kube's default client repeats a request that was answered 429, 503 or 504 by itself, up to 15
//! times and for minutes, inside of `send`. A reflector has its own rules for when to ask again,
//! and from which version, so it has to see the first answer. The client can only repeat what it
//! can clone; a body that was a response's cannot be.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// Makes such bodies, all empty.
pub(super) struct Unclonable(Client);

impl Unclonable {
    /// Within a tokio runtime: the client has a task.
    pub(super) fn new() -> Self {
        let empty =
            |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
        Self(Client::new(service_fn(empty), "default"))
    }

    pub(super) async fn body(&self) -> kube::Result<Body> {
        Ok(self.0.send(Request::new(Body::empty())).await?.into_body())
    }
}
