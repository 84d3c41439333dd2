//! The work of a leader that reconciles: a controller writes the leader's fencing token into each
//! object of the lease once. The informer of the controller also runs before the term, so its
//! store is filled when a standby begins to lead.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltafifo::BoxError;
use deltafifo_informer::leader_election::Term;
use deltafifo_informer::runtime::{Controller, controller::Action};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::history::token_of;
use crate::history::Object;
use crate::servers::NAMESPACE;
use crate::wait::POLL;

pub struct Reconciler {
    maps: SharedInformer<ConfigMap>,
    lease: String,
}

/// The context of the reconciles in a term.
struct Context {
    maps: Api<ConfigMap>,
    lease: String,
    data: BTreeMap<String, String>,
}

impl Reconciler {
    /// Starts the informer, which runs until the process ends.
    pub fn start(client: Client, lease: &str) -> Result<Self, BoxError> {
        let source =
            KubeListerWatcher::of_api(Api::<ConfigMap>::namespaced(client, NAMESPACE), &());
        let maps = SharedInformer::<ConfigMap>::builder(source).build()?;
        let running = maps.clone();
        tokio::spawn(async move { running.run().await });
        Ok(Self { maps, lease: lease.to_owned() })
    }

    /// Reconciles until the term ends.
    pub async fn lead(&self, term: Term) {
        let context = Context {
            maps: Api::namespaced(term.client(), NAMESPACE),
            lease: self.lease.clone(),
            data: token_of(&term).data(term.identity()),
        };
        Controller::from_informer(&self.maps)
            .while_leading(&term)
            .run(reconcile, |_, _, _| Action::requeue(POLL), Arc::new(context))
            .for_each(|_| async {})
            .await;
    }
}

async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let name = map.metadata.name.as_deref().unwrap_or_default();
    let Some((lease, object)) = Object::of(name) else { return Ok(Action::await_change()) };
    if lease == context.lease && map.data.as_ref() != Some(&context.data) {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: match object {
                Object::Versioned => map.metadata.resource_version.clone(),
                Object::Plain => None,
            },
            ..ObjectMeta::default()
        };
        let data = Some(context.data.clone());
        let map = ConfigMap { metadata, data, ..ConfigMap::default() };
        context.maps.replace(name, &PostParams::default(), &map).await?;
    }
    Ok(Action::await_change())
}
