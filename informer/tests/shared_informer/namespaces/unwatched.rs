//! An informer of the maps in a namespace whose watch is in a backoff.

use deltafifo_informer::shared_informer::{HandlerOptions, SharedInformerFactory, Subscription};
use deltafifo_testkit::{ApiServer, Fault, Resource};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::DeleteParams;
use serde_json::json;

use super::rig::{Shop, apply_many, in_green, namespace, next, server, stored, until};
use crate::rig::{Builder, Informer, idle};

/// An informer of the maps in a namespace that is selected by its label. The watch of the maps is
/// in a backoff, so it delivers no changes.
pub struct Unwatched {
    pub server: ApiServer,
    pub factory: SharedInformerFactory,
    pub maps: Informer,
    pub changes: Subscription<ConfigMap>,
}

impl Unwatched {
    /// Starts the informer with five maps of the namespace `green`, and breaks their watch.
    pub async fn start(choose: fn(Builder) -> Builder) -> Self {
        let server = server();
        namespace(&server, "green", "shop");
        apply_many(&server, "green", 5);
        let Shop { factory, all, maps } = Shop::new(&server, choose);
        factory.start();
        maps.wait_for_sync().await.unwrap();
        let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
        for _ in 0..5 {
            next(&mut changes).await;
        }
        server.fault(Fault::refused().when(in_green).times(usize::MAX));
        server.end_watches();
        idle().await;
        until(|| all.watch_status().is_open).await;
        Self { server, factory, maps, changes }
    }

    /// Marks the namespace as being deleted, and deletes the first `deleted` of its maps.
    pub async fn begin_deletion(&self, deleted: usize) {
        let mut green = self.server.get(&Resource::namespaces(), "", "green").unwrap();
        green["metadata"]["finalizers"] = json!(["example.com/content"]);
        self.server.apply(green).unwrap();
        let client = kube::Api::<Namespace>::all(self.server.client());
        client.delete("green", &DeleteParams::default()).await.unwrap();
        for n in 0..deleted {
            self.server.delete(&Resource::config_maps(), "green", &format!("m{n}")).unwrap();
        }
    }

    pub fn end_deletion(&self) {
        self.server.delete(&Resource::namespaces(), "", "green").unwrap();
    }

    pub fn remove_label(&self) {
        let mut green = self.server.get(&Resource::namespaces(), "", "green").unwrap();
        green["metadata"]["labels"]["team"] = "bank".into();
        self.server.apply(green).unwrap();
    }

    /// Asserts that the first `of_list` maps are deleted by a list, and the others because their
    /// namespace is removed.
    pub async fn assert_listed_deletions(mut self, of_list: usize) {
        let mut changes = Vec::new();
        for _ in 0..5 {
            changes.push(next(&mut self.changes).await);
        }
        changes.sort_by_key(|change| change.split_once('-').map(|(_, name)| name.to_owned()));
        for (n, change) in changes.iter().enumerate() {
            let cause = if n < of_list { "Relist" } else { "NamespaceRemoved" };
            assert_eq!(*change, format!("{cause} -m{n}"), "of {changes:?}");
        }
        assert_eq!(stored(&self.maps), [""; 0]);
        drop(self.changes);
        self.factory.shutdown().await;
    }
}
