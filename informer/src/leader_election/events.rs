//! Events about the terms of a candidate.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::ElectionContext;
use crate::error_chain;
use crate::lease::LeaseState;

/// The events of a term: its beginning, which is published at once, and its end.
pub(super) struct TermEvents {
    publisher: Arc<Publisher>,
    /// The task that publishes the first event. It does not delay the work of the leader.
    began: JoinHandle<()>,
}

struct Publisher {
    shared: Arc<ElectionContext>,
    recorder: Recorder,
    lease: ObjectReference,
    identity: String,
}

impl TermEvents {
    /// Publishes that the candidate leads, in a task. Returns `None` if the elector has no
    /// recorder.
    pub(super) fn begin(
        shared: &Arc<ElectionContext>,
        claim: &LeaseState,
        identity: &str,
    ) -> Option<Self> {
        let recorder = shared.recorder.clone()?;
        let lease = ObjectReference {
            api_version: Some(Lease::api_version(&()).into_owned()),
            kind: Some(Lease::kind(&()).into_owned()),
            namespace: Some(shared.lock.namespace.clone()),
            name: Some(shared.lock.name.clone()),
            uid: Some(claim.uid.to_string()),
            // Kube's recorder counts an event that differs from an earlier one only in its note as
            // a repetition of it, and keeps the old note. The version differs in each term.
            resource_version: Some(claim.version.to_string()),
            ..ObjectReference::default()
        };
        let (shared, identity) = (Arc::clone(shared), identity.to_owned());
        let publisher = Arc::new(Publisher { shared, recorder, lease, identity });
        let own = Arc::clone(&publisher);
        let began = tokio::spawn(async move { own.publish("BecameLeader", "became leader").await });
        Some(Self { publisher, began })
    }

    /// Publishes that the term has ended, in a task. The result waits at most a retry period for
    /// that task.
    pub(super) fn end(self) -> impl Future<Output = ()> {
        let Self { publisher, began } = self;
        let limit = publisher.shared.timing.retry_period;
        let ended = tokio::spawn(async move {
            // Fails if kube's recorder panics. The second event follows anyway.
            let _ = began.await;
            publisher.publish("StoppedLeading", "stopped leading").await;
        });
        async move {
            // The task continues after the limit, until the runtime ends.
            let _ = timeout(limit, ended).await;
        }
    }
}

impl Publisher {
    /// Publishes an event. Waits at most a retry period for the answer.
    async fn publish(&self, action: &str, change: &str) {
        let event = Event {
            type_: EventType::Normal,
            reason: "LeaderElection".to_owned(),
            note: Some(format!("{} {change}", self.identity)),
            action: action.to_owned(),
            secondary: None,
        };
        let published = self.recorder.publish(&event, &self.lease);
        let failed = match timeout(self.shared.timing.retry_period, published).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error_chain(&error),
            Err(_) => "no answer within the retry period".to_owned(),
        };
        tracing::warn!(
            lease = self.shared.title(),
            error = failed,
            "an event of the leader election was not published; the election continues"
        );
    }
}
