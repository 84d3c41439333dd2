//! Faults that a test injects into matching requests, a given number of times.

use std::fmt;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use kube::core::Status;
use parking_lot::Mutex;

use crate::body::{After, BodyFault, BodyFaultKind};
use crate::request::{Request, Verb};

/// A fault that the server injects into a request. By default it strikes [once](Self::times) and
/// fits any request. It waits in the server, in the order in which faults were
/// [armed](crate::ApiServer::fault), until a matching request arrives. At most one fault strikes a
/// request.
///
/// ```
/// # use deltafifo_testkit::{ApiServer, Fault, Resource, Verb, status};
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube::api::{Api, ListParams};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::builder().resource(Resource::pods()).build();
/// let pods: Api<Pod> = Api::all(server.client());
///
/// server.fault(Fault::status(status::too_many_requests(1)).on(Verb::List).times(2));
/// for _ in 0..2 {
///     let Err(kube::Error::Api(status)) = pods.list(&ListParams::default()).await else {
///         panic!("too late")
///     };
///     assert_eq!(status.code, 429);
/// }
/// assert!(pods.list(&ListParams::default()).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[must_use = "ApiServer::fault arms it"]
pub struct Fault {
    kind: Kind,
    verb: Option<Verb>,
    fits: Option<Predicate>,
    times: usize,
}

/// A user's function that says which requests a fault fits.
type Predicate = Box<dyn Fn(&Request) -> bool + Send + Sync>;

/// The effect of a fault.
#[derive(Clone)]
pub(crate) enum Kind {
    /// The response is this Status.
    Status(Box<Status>),
    /// The connection is refused.
    Refused,
    /// The request is never answered.
    Silence,
    /// The fault is in the body of the response.
    Body(BodyFault),
    /// A watch starts with this many of the last changes before its version.
    Repeat(usize),
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self { kind, verb: None, fits: None, times: 1 }
    }

    /// Returns a fault: the server responds with this Status and its code. See
    /// [`status`](crate::status) for common ones.
    pub fn status(status: Status) -> Self {
        Self::new(Kind::Status(Box::new(status)))
    }

    /// Returns a fault: the connection is refused, and the client gets an error of kind
    /// [`ConnectionRefused`](std::io::ErrorKind).
    pub fn refused() -> Self {
        Self::new(Kind::Refused)
    }

    /// Returns a fault: the request never gets a response.
    pub fn silence() -> Self {
        Self::new(Kind::Silence)
    }

    /// Returns a fault: the body of the response breaks with an error of kind
    /// [`ConnectionReset`](std::io::ErrorKind). Like [`cut`](Self::cut), [`hang`](Self::hang) and
    /// [`garbage`](Self::garbage), this fault leaves a body unchanged if the body ends before
    /// `after`.
    pub fn broken(after: After) -> Self {
        Self::in_body(after, BodyFaultKind::Break)
    }

    /// Returns a fault: the body of the response ends early as if it were complete, possibly in the
    /// middle of a line.
    pub fn cut(after: After) -> Self {
        Self::in_body(after, BodyFaultKind::Cut)
    }

    /// Returns a fault: the body of the response stays open without more data. Not even the timeout
    /// that a watch asked for ends the body.
    pub fn hang(after: After) -> Self {
        Self::in_body(after, BodyFaultKind::Hang)
    }

    /// Returns a fault: these bytes are inserted into the body of the response. The regular content
    /// follows them.
    pub fn garbage(after: After, bytes: impl Into<Bytes>) -> Self {
        Self::in_body(after, BodyFaultKind::Garbage(bytes.into()))
    }

    /// Returns a fault: a watch repeats the last `changes` changes before its version. The fault
    /// fits watches only.
    pub fn repeat(changes: usize) -> Self {
        Self::new(Kind::Repeat(changes)).on(Verb::Watch)
    }

    fn in_body(after: After, kind: BodyFaultKind) -> Self {
        Self::new(Kind::Body(BodyFault { after, kind }))
    }

    /// Limits the fault to requests of this verb.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Limits the fault to requests for which `fits` returns true, for example the second page of
    /// a list.
    pub fn when(mut self, fits: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.fits = Some(Box::new(fits));
        self
    }

    /// Sets the number of requests that the fault strikes. With `usize::MAX` it strikes until
    /// [`clear_faults`](crate::ApiServer::clear_faults) disarms it.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    fn fits(&self, request: &Request) -> bool {
        self.verb.is_none_or(|verb| verb == request.verb())
            && self.fits.as_ref().is_none_or(|fits| fits(request))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("verb", &self.verb)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

/// The armed faults, in the order in which they were armed.
#[derive(Default)]
pub(crate) struct Faults {
    armed: Mutex<Vec<Armed>>,
}

#[derive(Clone)]
struct Armed {
    fault: Arc<Fault>,
    remaining: usize,
}

impl Faults {
    pub(crate) fn arm(&self, fault: Fault) {
        self.armed.lock().push(Armed { remaining: fault.times, fault: Arc::new(fault) });
    }

    pub(crate) fn clear(&self) {
        let armed = mem::take(&mut *self.armed.lock());
        // The user's functions are dropped with no lock held.
        drop(armed);
    }

    /// Returns the effect of the fault that strikes this request, if any. Counts one use of that
    /// fault.
    pub(crate) fn strike(&self, request: &Request) -> Option<Kind> {
        // The user's predicates run on a copy, with no lock held.
        let candidates = self.armed.lock().clone();
        candidates.into_iter().find_map(|Armed { fault, .. }| {
            (fault.fits(request) && self.take(&fault)).then(|| fault.kind.clone())
        })
    }

    /// Counts one use of a fault. Returns false if it is no longer armed.
    fn take(&self, fault: &Arc<Fault>) -> bool {
        let mut armed = self.armed.lock();
        let Some(at) = armed.iter().position(|armed| Arc::ptr_eq(&armed.fault, fault)) else {
            return false;
        };
        let Some(remaining) = armed[at].remaining.checked_sub(1) else {
            return false;
        };
        armed[at].remaining = remaining;
        if remaining == 0 {
            armed.remove(at);
        }
        true
    }
}
