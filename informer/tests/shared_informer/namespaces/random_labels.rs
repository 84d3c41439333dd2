//! A test of random histories of namespaces that a label selects.

use std::time::Duration;

use deltafifo_informer::shared_informer::{Cause, Notification};
use deltafifo_testkit::{ApiServer, Request, Resource, status};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::DeleteParams;
use serde_json::json;
use tokio::task::yield_now;

use super::rig::{FAULTS, LONG, PAUSES, Shop, apply, namespace, server};
use super::view::View;
use crate::rig::QUEUES;

/// A random history of namespaces that gain and lose a label or are deleted, and of the objects in
/// them.
struct Followed {
    server: ApiServer,
    dice: fastrand::Rng,
}

impl Followed {
    async fn step(&mut self) {
        let name = ["blue", "green"][self.dice.usize(..2)];
        let object = ["a", "b", "c"][self.dice.usize(..3)];
        let exists = self.server.get(&Resource::namespaces(), "", name).is_some();
        match self.dice.u8(..100) {
            0..35 if exists => apply(&self.server, name, object, self.dice.u64(..)),
            35..45 => drop(self.server.delete(&Resource::config_maps(), name, object)),
            45..60 => namespace(&self.server, name, ["shop", "bank"][self.dice.usize(..2)]),
            60..65 if exists => {
                let client = kube::Api::<Namespace>::all(self.server.client());
                let mut marked = self.server.get(&Resource::namespaces(), "", name).unwrap();
                marked["metadata"]["finalizers"] = json!(["example.com/content"]);
                self.server.apply(marked).unwrap();
                // This can fail only because of a fault.
                drop(client.delete(name, &DeleteParams::default()).await);
            }
            65..70 if exists => {
                for object in ["a", "b", "c"] {
                    drop(self.server.delete(&Resource::config_maps(), name, object));
                }
                self.server.delete(&Resource::namespaces(), "", name).unwrap();
            }
            70..78 => {
                let (_, fault) = FAULTS[self.dice.usize(..FAULTS.len())];
                let fails = move |request: &Request| request.namespace() == Some(name);
                self.server.fault(fault().when(fails).times([1, 3, 9][self.dice.usize(..3)]));
            }
            78..82 => self.server.clear_faults(),
            82..88 => drop(self.server.end_watches()),
            88..91 => drop(self.server.error_watches(status::expired("as the test wants"))),
            91..93 => self.server.compact(),
            _ => {
                let millis = PAUSES[self.dice.usize(..PAUSES.len())];
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
        }
        // Lets the informer do a part of its work, as between the steps of `random_sets`.
        for _ in 0..self.dice.usize(..12) {
            yield_now().await;
        }
    }

    /// Asserts that the object of a deletion does not exist on the server, unless the deletion's
    /// cause is the removal of the namespace from the set.
    fn check(&self, change: &Notification<ConfigMap>, seed: u64) {
        let Notification::Deleted { old, cause, .. } = change else { return };
        let meta = &old.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        let now = self.server.get(&Resource::config_maps(), namespace.unwrap(), name.unwrap());
        let lives = now.is_some_and(|now| now["metadata"]["uid"].as_str() == meta.uid.as_deref());
        assert!(meta.uid.is_some());
        assert!(*cause == Cause::NamespaceRemoved || !lives, "seed {seed}: {change:?}");
    }

    /// Returns the objects in the namespaces that have the label.
    fn expected(&self) -> Vec<String> {
        let mut all = Vec::new();
        for name in ["blue", "green"] {
            let namespace = self.server.get(&Resource::namespaces(), "", name);
            if namespace.is_none_or(|found| found["metadata"]["labels"]["team"] != "shop") {
                continue;
            }
            for object in ["a", "b", "c"] {
                let map = self.server.get(&Resource::config_maps(), name, object);
                let data =
                    |map: serde_json::Value| map["data"]["data"].as_str().unwrap().to_owned();
                all.extend(map.map(|map| format!("{name}/{object}={}", data(map))));
            }
        }
        all
    }
}

#[tokio::test(start_paused = true)]
async fn random_labels_and_deletions_of_namespaces_report_no_living_object_as_deleted() {
    for seed in 0..300 {
        let mut history = Followed { server: server(), dice: fastrand::Rng::with_seed(seed) };
        let choose = QUEUES[usize::from(seed.is_multiple_of(2))];
        let Shop { factory, maps, .. } =
            Shop::new(&history.server, |maps| choose(maps).on_error(|_| ()));
        let mut view = View::of(&maps, seed);
        factory.start();
        for _ in 0..80 {
            history.step().await;
            view.catch_up(|change| history.check(change, seed));
        }
        history.server.clear_faults();
        history.server.end_watches();
        let check = |change: &Notification<ConfigMap>| history.check(change, seed);
        view.wait_for(&history.expected(), 3 * LONG, check).await;
        drop(view);
        factory.shutdown().await;
    }
}
