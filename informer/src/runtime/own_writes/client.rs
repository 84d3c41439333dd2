//! A client that notes what a reconcile writes.

use futures_util::FutureExt;
use http::{Method, Request, Response, Uri, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

use super::Writer;
use super::answer::written;
use super::stores::Before;
use super::target::Target;

/// Returns a client that sends its requests with `client`, and notes what the current reconcile
/// writes with it. See the [module](super) for what is noted. Requests and answers are not changed;
/// the answer to a write that is noted is read as a whole before it is returned.
///
/// `client` may be that of a term (`leader_election::Term::client`) or of a permit
/// (`sharding::Permit::client`), and these may be built over the result.
///
/// Like every client of kube, the result runs a task on the current runtime, and its requests fail
/// once that runtime has ended.
///
/// # Panics
/// If called outside of a tokio runtime.
#[must_use]
pub fn client(client: &Client) -> Client {
    let sender = client.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = sender.clone();
        // The current reconcile is read in this future, which its task polls. The closure itself
        // is called in a task of the client.
        async move {
            let writing = Writing::of(&request);
            let response = client.send(request).await.map_err(BoxError::from)?;
            match writing {
                Some(writing) if response.status().is_success() => writing.note(response).await,
                _ => Ok(response),
            }
        }
    });
    Client::new(service, client.default_namespace()).with_valid_until(*client.valid_until())
}

/// A write that is to be noted once it is answered.
struct Writing {
    writer: Writer,
    method: Method,
    uri: Uri,
    /// The stores before the request was sent.
    before: Vec<Option<Before>>,
}

impl Writing {
    /// Returns `None` if the request is not a write of a reconcile, or if no store can show it.
    fn of(request: &Request<Body>) -> Option<Self> {
        let writer = Writer::current()?;
        let method = request.method();
        let is_write = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method);
        if !is_write || request.headers().contains_key(header::UPGRADE) || is_dry_run(request) {
            return None;
        }
        let target = Target::of(request.uri())?;
        let before = writer.writes.before(&target);
        if before.iter().all(Option::is_none) {
            return None;
        }
        Some(Self { method: method.clone(), uri: request.uri().clone(), before, writer })
    }

    /// Reads the answer and notes what it says. Returns the same answer.
    ///
    /// # Errors
    /// If the body breaks.
    async fn note(self, response: Response<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        if let Some(target) = Target::of(&self.uri) {
            let Writer { writes, key, uid } = &self.writer;
            for object in written(&self.method, &target, head.status, &body) {
                writes.note(key, uid, &target, &self.before, &object);
            }
        }
        Ok(Response::from_parts(head, Body::from(body)))
    }
}

/// Returns whether a request is a dry run. A deletion has the parameter in its body, where it is
/// not found if a fence has wrapped the body.
fn is_dry_run(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let has_dry_run = |options: &Value| options.get("dryRun").is_some_and(|runs| !runs.is_null());
    if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "dryRun") {
        return true;
    }
    if request.method() != Method::DELETE {
        return false;
    }
    // A body in memory is ready at once.
    let body = request.body().try_clone().and_then(|body| body.collect().now_or_never()?.ok());
    body.and_then(|body| serde_json::from_slice(&body.to_bytes()).ok())
        .is_some_and(|options| has_dry_run(&options))
}
