//! Messages between machines and the server, and what they say.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo::locks::Mutex;
use futures_util::stream::unfold;
use http::header::ACCEPT;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::core::Status;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::history::{Fact, Object, Tenure};
use super::machine::LocalClock;

pub type Body = UnsyncBoxBody<Bytes, io::Error>;
pub type Answer = io::Result<Response<Body>>;
pub type Events = mpsc::UnboundedSender<io::Result<Bytes>>;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ListLeases,
    WatchLeases,
    WriteLease,
    ListObjects,
    WatchObjects,
    /// A write of a reconcile.
    Work,
}

impl Kind {
    fn of(parts: &Parts) -> Self {
        let is_lease = parts.uri.path().contains("/leases");
        let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        match (is_lease, &parts.method) {
            (true, &Method::GET) if is_watch => Self::WatchLeases,
            (true, &Method::GET) => Self::ListLeases,
            (true, _) => Self::WriteLease,
            (false, &Method::GET) if is_watch => Self::WatchObjects,
            (false, &Method::GET) => Self::ListObjects,
            (false, _) => Self::Work,
        }
    }

    pub fn is_watch(self) -> bool {
        matches!(self, Self::WatchLeases | Self::WatchObjects)
    }

    pub fn is_write(self) -> bool {
        matches!(self, Self::WriteLease | Self::Work)
    }
}

/// A request that a machine has sent.
pub struct Sent {
    pub at: Duration,
    pub machine: usize,
    pub kind: Kind,
    pub parts: Parts,
    pub body: Bytes,
    pub answer: oneshot::Sender<Answer>,
}

/// The requests that machines have sent, and that the network has not taken.
pub type Outbox = Arc<Mutex<Vec<Sent>>>;

/// Returns a client of a machine, in the current runtime.
pub fn client(outbox: Outbox, machine: usize, clock: LocalClock) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let outbox = Arc::clone(&outbox);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let (answer, answered) = oneshot::channel();
            let (kind, at) = (Kind::of(&parts), clock.now());
            outbox.lock().push(Sent { at, machine, kind, parts, body, answer });
            answered.await.unwrap_or_else(|_| Err(broken()))
        }
    });
    Client::new(service, "default")
}

pub fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "simulated")
}

pub fn refusal(status: &Status) -> Response<Body> {
    let json = serde_json::to_vec(status).expect("a status is JSON");
    Response::builder().status(status.code).body(whole(json.into())).expect("the code is valid")
}

pub fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Returns a body that consists of the received events.
pub fn streamed(events: mpsc::UnboundedReceiver<io::Result<Bytes>>) -> Body {
    let events = unfold(events, |mut events| async move {
        let event = events.recv().await?;
        Some((event.map(Frame::data), events))
    });
    StreamBody::new(events).boxed_unsync()
}

impl Sent {
    /// Returns the order of requests that were sent at the same time, which does not depend on the
    /// order in which the tasks of a machine run.
    pub fn order(&self) -> (Duration, usize, Kind, String, String) {
        let (method, uri) = (self.parts.method.to_string(), self.parts.uri.to_string());
        (self.at, self.machine, self.kind, method, uri)
    }

    /// Returns the fact that a reconcile has sent this write.
    pub fn work(&self) -> Option<Fact> {
        let written: Value = serde_json::from_slice(&self.body).ok()?;
        let (tenure, member) = (tenure(&written["data"])?, text(&written["data"]["member"]));
        let is_work = self.kind == Kind::Work;
        is_work.then_some(Fact::Sent { machine: self.machine, tenure, member })
    }
}

/// Returns whether a request asks for the metadata of objects only.
pub fn is_of_metadata(parts: &Parts) -> bool {
    let accepted = parts.headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("PartialObjectMetadata"))
}

/// Returns the fact that the server has applied a write, if that concerns a rule. `answer` is the
/// object as the server has stored it.
pub fn applied(machine: usize, kind: Kind, sent: Duration, answer: &[u8]) -> Option<Fact> {
    let stored: Value = serde_json::from_slice(answer).ok()?;
    let metadata = &stored["metadata"];
    let name = text(&metadata["name"]);
    let holder = text(&stored["spec"]["holderIdentity"]);
    match kind {
        Kind::Work => {
            let key = format!("{}/{name}", text(&metadata["namespace"]));
            let object = Object { key, uid: text(&metadata["uid"]) };
            let version = text(&metadata["resourceVersion"]).parse().ok()?;
            Some(Fact::Applied { tenure: tenure(&stored["data"])?, object, version })
        }
        Kind::WriteLease if name.contains("-shard-") => {
            let transitions = stored["spec"]["leaseTransitions"].as_i64().unwrap_or_default();
            let transitions = i32::try_from(transitions).ok()?;
            let tenure = Tenure { uid: text(&metadata["uid"]), transitions };
            Some(if holder.is_empty() {
                Fact::Released { shard: name, tenure }
            } else {
                Fact::Claimed { shard: name, tenure, member: holder }
            })
        }
        Kind::WriteLease if name.contains("-member-") && !holder.is_empty() => {
            Some(Fact::Renewed { machine, member: holder, sent })
        }
        _ => None,
    }
}

fn tenure(data: &Value) -> Option<Tenure> {
    let transitions = data["transitions"].as_str()?.parse().ok()?;
    Some(Tenure { uid: text(&data["uid"]), transitions })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
