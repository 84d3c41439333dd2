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

/// Returns an empty body that cannot be cloned.
///
/// Each call creates a client, which spawns a task on the current runtime. A client that was kept
/// would fail for ever once the runtime of its first request has ended.
///
/// # Errors
/// If the current runtime is shut down.
pub(super) async fn empty_body() -> kube::Result<Body> {
    let empty =
        |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
    let client = Client::new(service_fn(empty), "default");
    Ok(client.send(Request::new(Body::empty())).await?.into_body())
}
