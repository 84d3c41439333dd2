//! Faults: what goes wrong, for which requests, and how often.

use std::fmt;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use kube::core::Status;
use parking_lot::Mutex;

use crate::body::{After, Spoil, Spoiler};
use crate::request::{Request, Verb};

/// Something that goes wrong, [once](Self::times) and for any request unless it says otherwise. It
/// waits at the server, after those that were [armed](crate::ApiServer::fault) before it, until a
/// request comes that it fits. One fault strikes a request.
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
///     let Err(kube::Error::Api(status)) = pods.list(&ListParams::default()).await else { panic!("too late") };
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

/// The user's function.
type Predicate = Box<dyn Fn(&Request) -> bool + Send + Sync>;

/// What goes wrong.
#[derive(Clone)]
pub(crate) enum Kind {
    /// This is the answer.
    Status(Box<Status>),
    /// The connection is refused.
    Refused,
    /// No answer comes.
    Silence,
    /// The body of the answer is spoiled.
    Body(Spoil),
    /// A watch is told so many changes again.
    Again(usize),
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self { kind, verb: None, fits: None, times: 1 }
    }

    /// The answer is this Status with its code; see [`status`](crate::status) for the usual ones.
    pub fn status(status: Status) -> Self {
        Self::new(Kind::Status(Box::new(status)))
    }

    /// The connection is refused: the client gets an error of kind
    /// [`ConnectionRefused`](std::io::ErrorKind).
    pub fn refused() -> Self {
        Self::new(Kind::Refused)
    }

    /// No answer comes, ever.
    pub fn silence() -> Self {
        Self::new(Kind::Silence)
    }

    /// The answer breaks off in its body, with an error of kind
    /// [`ConnectionReset`](std::io::ErrorKind). A body that is over before stays whole; so it is
    /// with the following faults.
    pub fn broken(after: After) -> Self {
        Self::spoiled(after, Spoiler::Break)
    }

    /// The body ends early, as if it were whole: in the middle of a line, it may be.
    pub fn cut(after: After) -> Self {
        Self::spoiled(after, Spoiler::Cut)
    }

    /// The body stays open, but nothing comes any more; not even the timeout that a watch asked
    /// for.
    pub fn hang(after: After) -> Self {
        Self::spoiled(after, Spoiler::Hang)
    }

    /// These bytes stand in the body; what should be there follows them.
    pub fn garbage(after: After, bytes: impl Into<Bytes>) -> Self {
        Self::spoiled(after, Spoiler::Garbage(bytes.into()))
    }

    /// A watch is told the last so many changes before its version again. Fits watches only.
    pub fn repeat(changes: usize) -> Self {
        Self::new(Kind::Again(changes)).on(Verb::Watch)
    }

    fn spoiled(after: After, by: Spoiler) -> Self {
        Self::new(Kind::Body(Spoil { after, by }))
    }

    /// Fits only requests of this kind.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Fits only requests of which this is true: the second page of a list, for instance.
    pub fn when(mut self, fits: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.fits = Some(Box::new(fits));
        self
    }

    /// Strikes so many requests; `usize::MAX` is until
    /// [`clear_faults`](crate::ApiServer::clear_faults).
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

/// The faults that wait, in the order in which they were armed.
#[derive(Default)]
pub(crate) struct Faults {
    armed: Mutex<Vec<Armed>>,
}

#[derive(Clone)]
struct Armed {
    fault: Arc<Fault>,
    left: usize,
}

impl Faults {
    pub(crate) fn arm(&self, fault: Fault) {
        self.armed.lock().push(Armed { left: fault.times, fault: Arc::new(fault) });
    }

    pub(crate) fn clear(&self) {
        let armed = mem::take(&mut *self.armed.lock());
        // The user's functions are dropped with nothing locked.
        drop(armed);
    }

    /// What goes wrong with a request.
    pub(crate) fn strike(&self, request: &Request) -> Option<Kind> {
        // Whether one fits is asked of the user's function, with nothing locked.
        let candidates = self.armed.lock().clone();
        candidates.into_iter().find_map(|Armed { fault, .. }| {
            (fault.fits(request) && self.take(&fault)).then(|| fault.kind.clone())
        })
    }

    /// Whether it is still armed; once less then.
    fn take(&self, fault: &Arc<Fault>) -> bool {
        let mut armed = self.armed.lock();
        let Some(at) = armed.iter().position(|armed| Arc::ptr_eq(&armed.fault, fault)) else {
            return false;
        };
        let Some(left) = armed[at].left.checked_sub(1) else {
            return false;
        };
        armed[at].left = left;
        if left == 0 {
            armed.remove(at);
        }
        true
    }
}
