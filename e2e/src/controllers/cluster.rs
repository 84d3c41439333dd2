//! The objects of the controllers' scenario: config maps, and pods that the config maps own or
//! that use the config maps. This module creates and deletes them, and finds the config maps that
//! a controller has not reconciled.

use deltafifo::BoxError;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec, Secret};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, Resource, ResourceExt};

use super::ours::mirror::mirrored;
use crate::servers::NAMESPACE;

/// The cluster of one set of controllers: the config maps, pods and secrets of one API server.
pub struct Cluster {
    maps: Api<ConfigMap>,
    pods: Api<Pod>,
    secrets: Api<Secret>,
}

impl Cluster {
    pub fn new(client: &Client) -> Self {
        Self {
            maps: Api::namespaced(client.clone(), NAMESPACE),
            pods: Api::namespaced(client.clone(), NAMESPACE),
            secrets: Api::namespaced(client.clone(), NAMESPACE),
        }
    }

    /// Creates a config map with the label `mirror`, a pod that it owns, and a pod that uses it.
    pub async fn add(&self, name: &str) -> Result<(), kube::Error> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("mirror".to_owned(), "yes".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let data = Some([("name".to_owned(), name.to_owned())].into());
        let map = ConfigMap { metadata, data, ..ConfigMap::default() };
        let map = self.maps.create(&PostParams::default(), &map).await?;
        let owner_references = map.controller_owner_ref(&()).map(|owner| vec![owner]);
        self.add_pod(
            &format!("{name}-owned"),
            ObjectMeta { owner_references, ..ObjectMeta::default() },
        )
        .await?;
        let uses = Some([("uses".to_owned(), name.to_owned())].into());
        self.add_pod(
            &format!("{name}-uses"),
            ObjectMeta { annotations: uses, ..ObjectMeta::default() },
        )
        .await
    }

    async fn add_pod(&self, name: &str, metadata: ObjectMeta) -> Result<(), kube::Error> {
        let container =
            Container { name: "web".into(), image: Some("web".into()), ..Container::default() };
        let spec = Some(PodSpec { containers: vec![container], ..PodSpec::default() });
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..metadata };
        self.pods.create(&PostParams::default(), &Pod { metadata, spec, ..Pod::default() }).await?;
        Ok(())
    }

    /// Deletes the pods and the secret of a config map, but not the config map.
    pub async fn strip(&self, name: &str) -> Result<(), kube::Error> {
        for pod in ["owned", "uses"] {
            self.pods
                .delete(&format!("{name}-{pod}"), &DeleteParams::default().grace_period(0))
                .await?;
        }
        self.secrets.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Returns the names of the config maps that each controller still has to reconcile. These are,
    /// for the three controllers in order: the config maps whose annotation has a wrong number of
    /// owned pods, those whose annotation has a wrong number of pods that use them, and those whose
    /// secret is missing or wrong.
    pub async fn wrong(&self) -> Result<[Vec<String>; 3], BoxError> {
        let all = ListParams::default();
        let (pods, secrets) = (self.pods.list(&all).await?, self.secrets.list(&all).await?);
        let mut wrong = [const { Vec::new() }; 3];
        for map in self.maps.list(&all).await? {
            let name = map.name_any();
            let owns = |pod: &&Pod| pod.owner_references().iter().any(|owner| owner.name == name);
            let uses = |pod: &&Pod| pod.annotations().get("uses") == Some(&name);
            let is_annotated = |annotation, number: usize| {
                map.annotations().get(annotation) == Some(&number.to_string())
            };
            let data = map.data.as_ref().map(mirrored);
            let right = [
                is_annotated("pods", pods.iter().filter(owns).count()),
                is_annotated("users", pods.iter().filter(uses).count()),
                secrets.iter().any(|secret| secret.name_any() == name && secret.data == data),
            ];
            for (wrong, _) in wrong.iter_mut().zip(right).filter(|(_, right)| !right) {
                wrong.push(name.clone());
            }
        }
        Ok(wrong)
    }
}
