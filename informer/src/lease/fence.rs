//! A client that sends mutating requests only while a lease is held.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body::{Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

use super::hold::Hold;

/// The error of a request that was refused or given up because the lease is not held.
#[derive(Debug, thiserror::Error)]
#[error(
    "the lease is not held any more: the request was not sent, or its answer was given up; do not repeat it"
)]
struct LeaseLost;

/// Returns whether a request failed because the lease of its client is not held any more.
///
/// ```
/// use deltafifo_informer::leader_election;
///
/// fn is_worth_a_retry(error: &kube::Error) -> bool {
///     !leader_election::is_lost(error)
/// }
/// ```
#[must_use]
pub fn is_lost(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(source) if source.is::<LeaseLost>())
}

/// Returns a client that sends mutating requests only while the lease is held. A separate task
/// sends such a request, so the request is work under the lease until it is answered, even if its
/// caller is dropped or gives up at the deadline. If the server refuses it, `client` does not
/// repeat it. A request that waits for a connection at the deadline is not sent, if it has a body.
///
/// `begin` counts a request as work under the lease, until the guard that it returns is dropped. If
/// it returns `None` because the lease is not held, the request is refused.
pub(crate) fn fenced<G: Send + 'static>(
    client: &Client,
    hold: &Hold,
    begin: impl Fn() -> Option<G> + Clone + Send + Sync + 'static,
) -> Client {
    let (sender, hold) = (client.clone(), hold.clone());
    let namespace = client.default_namespace().to_owned();
    let fence = hold.clone();
    let echo = tower::service_fn(move |request: Request<Body>| {
        let body = FencedBody { body: request.into_body(), hold: fence.clone() };
        async move { Ok::<_, BoxError>(Response::new(body)) }
    });
    let echo = Client::new(echo, namespace.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, echo, hold) = (sender.clone(), echo.clone(), hold.clone());
        let begin = begin.clone();
        async move {
            if !is_mutating(&request) {
                return client.send(request).await.map_err(BoxError::from);
            }
            let guard = begin().ok_or(LeaseLost)?;
            let checked = hold.clone();
            let sent = async move {
                let _guard = guard;
                // kube's client repeats a request that the server refuses with 429, 503 or 504 for
                // minutes, beyond the deadline. It cannot copy the body of a response, so it sends
                // a request with such a body once.
                let (parts, body) = request.into_parts();
                let body = echo.send(Request::new(body)).await?.into_body();
                let request = Request::from_parts(parts, body);
                // On a busy runtime the task may begin after the deadline.
                if !checked.is_held() {
                    return Err(LeaseLost.into());
                }
                client.send(request).await.map_err(|error| {
                    // After the term every failure counts as the loss of the lease. One of them is
                    // the error of a `FencedBody`, which the client has wrapped.
                    if checked.is_held() { error.into() } else { LeaseLost.into() }
                })
            };
            // `client` may be one that notes the writes of a reconcile.
            #[cfg(feature = "runtime")]
            let sent = crate::runtime::own_writes::carry(sent);
            let sent = tokio::spawn(sent);
            tokio::select! {
                biased;
                answer = sent => answer?,
                () = hold.ended() => Err(LeaseLost.into()),
            }
        }
    });
    Client::new(service, namespace).with_valid_until(*client.valid_until())
}

/// The body of a request. It fails once the lease is not held. hyper polls a body only when it has
/// a connection, and over HTTP/1 it sends no head before the first piece of the body.
struct FencedBody {
    body: Body,
    hold: Hold,
}

impl http_body::Body for FencedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.hold.is_held() {
            return Poll::Ready(Some(Err(LeaseLost.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns whether a request may change something: its method is not GET, or it upgrades the
/// connection (`exec`, `attach`, `portforward`).
fn is_mutating(request: &Request<Body>) -> bool {
    request.method() != Method::GET || request.headers().contains_key(header::UPGRADE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use deltafifo::locks::Mutex;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::lease::{Clock, HoldOwner};

    /// Returns a client that is fenced by a hold of ten seconds, and the owner of the hold.
    fn fence(client: &Client) -> (HoldOwner, Client) {
        let second = Duration::from_secs(1);
        let clock = Clock::new();
        let (owner, hold) = Hold::new(clock.now().after(10 * second), clock, 2 * second);
        let begin = {
            let hold = hold.clone();
            move || hold.begin()
        };
        (owner, fenced(client, &hold, begin))
    }

    /// Returns a client whose requests are answered at once, and the methods of these requests.
    fn answering() -> (Client, Arc<Mutex<Vec<Method>>>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&sent);
        let service = tower::service_fn(move |request: Request<Body>| {
            received.lock().push(request.method().clone());
            async { Ok::<_, BoxError>(Response::new(Body::empty())) }
        });
        (Client::new(service, "shop"), sent)
    }

    #[tokio::test(start_paused = true)]
    async fn mutating_requests_and_upgrades_are_refused_after_the_hold_and_reads_are_not() {
        let (client, sent) = answering();
        let (owner, client) = fence(&client);
        let request = |method: &Method, upgrades: bool| {
            let mut request = Request::builder().method(method).uri("/");
            if upgrades {
                request = request.header(header::UPGRADE, "websocket");
            }
            client.send(request.body(Body::empty()).unwrap())
        };
        let requests = [
            (Method::POST, false),
            (Method::PUT, false),
            (Method::PATCH, false),
            (Method::DELETE, false),
            (Method::GET, true),
        ];
        for (method, upgrades) in &requests {
            request(method, *upgrades).await.unwrap();
        }
        assert_eq!(sent.lock().len(), requests.len(), "they are sent while the lease is held");
        owner.end();
        for (method, upgrades) in &requests {
            let error = request(method, *upgrades).await.unwrap_err();
            assert!(is_lost(&error), "{method}, upgrades: {upgrades}: {error:?}");
        }
        assert_eq!(sent.lock().len(), requests.len(), "none was sent");
        request(&Method::GET, false).await.unwrap();
        assert_eq!(sent.lock().last(), Some(&Method::GET));
    }

    #[tokio::test(start_paused = true)]
    async fn fenced_client_keeps_the_time_until_which_its_credentials_are_valid() {
        let until = Some(Timestamp::UNIX_EPOCH);
        let (_owner, client) = fence(&answering().0.with_valid_until(until));
        assert_eq!(*client.valid_until(), until);
    }
}
