//! The term of `Controller::while_leading` (feature `leader-election`). Without the feature, `Term`
//! is a type without values, so that the other files of the controller need no `cfg`.

#[cfg(feature = "leader-election")]
pub(super) use crate::leader_election::Term;

/// A type without values in place of `leader_election::Term`.
#[cfg(not(feature = "leader-election"))]
#[derive(Clone)]
pub(super) enum Term {}

#[cfg(not(feature = "leader-election"))]
impl Term {
    pub(super) fn is_held(&self) -> bool {
        match *self {}
    }

    pub(super) fn lost(&self) -> std::future::Pending<()> {
        match *self {}
    }
}

#[cfg(feature = "leader-election")]
impl<F: crate::runtime::form::Form> super::Controller<F>
where
    crate::KubeMeta: deltafifo::Meta<F>,
{
    /// Reconciles only while `term` continues. When the term ends, no more reconciles and deletion
    /// handlers start, running ones are cancelled at their next await, even if the stream is not
    /// polled, and the stream ends. The lease is released only after all reconciles, the deletion
    /// handlers and the stream have ended. Send the requests of the reconciler through the [client
    /// of the term](Term::client), which refuses writes after the term.
    ///
    /// The informers of [`from_informer`](Self::from_informer) are not stopped, so that a replica
    /// that does not lead has synced stores.
    ///
    /// ```
    /// # use std::{convert::Infallible, sync::Arc};
    /// # use deltafifo_informer::SharedInformer;
    /// # use deltafifo_informer::leader_election::{ElectionError, LeaderElector};
    /// # use deltafifo_informer::runtime::{Controller, controller::Action};
    /// # use futures_util::StreamExt;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::Client;
    /// # async fn reconcile(_: Arc<ConfigMap>, _: Arc<Client>) -> Result<Action, Infallible> {
    /// #     Ok(Action::await_change())
    /// # }
    /// # async fn example(
    /// #     elector: LeaderElector,
    /// #     maps: SharedInformer<ConfigMap>,
    /// # ) -> Result<(), ElectionError> {
    /// elector
    ///     .run(|term| async move {
    ///         let client = Arc::new(term.client());
    ///         Controller::from_informer(&maps)
    ///             .while_leading(&term)
    ///             .run(reconcile, |_, _, _| Action::await_change(), client)
    ///             .for_each(|_| async {})
    ///             .await;
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn while_leading(mut self, term: &Term) -> Self {
        self.forceful.push(Box::pin(term.lost()));
        self.term = Some(term.clone());
        self
    }
}
