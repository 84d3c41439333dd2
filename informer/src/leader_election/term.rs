//! A term of a leader.

use std::sync::Arc;

use kube::Client;

use crate::lease::{Hold, fenced};
use crate::util::in_flight::WorkGuard;

/// A term: the time from a claim of the lease until it is lost or released.
///
/// Clones are cheap, and share one term. Each clone is *work under the lease*: the lease is
/// released only after all clones are dropped. So a thread or task that you start must hold a
/// clone.
///
/// ```
/// use deltafifo_informer::leader_election::Term;
///
/// async fn index(term: Term, parts: Vec<String>) -> usize {
///     let held = term.clone();
///     let index = move || parts.iter().take_while(|_| held.is_held()).count();
///     tokio::task::spawn_blocking(index).await.expect("the thread does not panic")
/// }
/// ```
pub struct Term {
    hold: Hold,
    shared: Arc<TermInner>,
    /// Held for its `Drop`, which ends this piece of work.
    _guard: WorkGuard,
}

struct TermInner {
    client: Client,
    transitions: i32,
    uid: String,
    identity: String,
}

impl Term {
    pub(super) fn new(
        client: &Client,
        hold: Hold,
        (uid, transitions): (&str, i32),
        identity: String,
    ) -> Self {
        let begin = {
            let hold = hold.clone();
            move || hold.begin()
        };
        let client = fenced(client, &hold, begin);
        let shared = TermInner { client, transitions, uid: uid.to_owned(), identity };
        let guard = hold.continue_work();
        Self { hold, shared: Arc::new(shared), _guard: guard }
    }

    /// Returns whether the term continues. It ends when the lease is lost, at the latest at its
    /// renew deadline, and when the elector stops. Reads two clocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Waits until the term has ended. After a suspension of the machine, it returns within a retry
    /// period after the machine has resumed.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.hold.clone().ended()
    }

    /// Returns a client that refuses mutating requests once the term has ended. A request is
    /// mutating if its method is not GET, or if it upgrades its connection. If the caller of a
    /// request is dropped, a request that has been sent is not cancelled, and counts as work under
    /// the lease until it is answered. [`is_lost`](super::is_lost) recognises the error of a
    /// refused request.
    ///
    /// The client sends a mutating request once. If the server refuses it with 429, 503 or 504, the
    /// request fails. (kube's client would repeat it, even after the term.)
    ///
    /// Some requests can reach the server after the term:
    ///
    /// - A request that is on its connection at the deadline can arrive after another leader has
    ///   begun. The server refuses it if it contains a `resourceVersion` and the object has been
    ///   written since.
    /// - A request that waits for a connection at the deadline is sent only if it has no body.
    ///   These are upgrades, and deletions of collections with default parameters.
    /// - A connection that was upgraded (an open `exec` session) continues after the term, and is
    ///   not work under the lease.
    ///
    /// The client has a task in the runtime in which the elector runs. Once that runtime has ended,
    /// all requests of the client fail, also reads, and `is_lost` does not recognise their error.
    #[must_use]
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// Returns the number of transitions (`leaseTransitions`) that the lease has in this term.
    /// Together with [`uid`](Self::uid) it is a fencing token: later terms of one lease have larger
    /// numbers, up to `i32::MAX`. If the lease is deleted and created again, it has another uid,
    /// and the number starts again.
    #[must_use]
    pub fn transitions(&self) -> i32 {
        self.shared.transitions
    }

    /// Returns the uid of the lease.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.shared.uid
    }

    /// Returns the identity of the leader in this term.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.shared.identity
    }
}

impl Clone for Term {
    fn clone(&self) -> Self {
        let guard = self.hold.continue_work();
        Self { hold: self.hold.clone(), shared: Arc::clone(&self.shared), _guard: guard }
    }
}
