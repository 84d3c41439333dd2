//! Installs a custom kind with two versions, moves the stored version, and removes the kind.
//! (Shape: `crd_derive_multi`.)

use std::error::Error;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use super::runtime::wait::{await_condition, conditions};

const NAME: &str = "tools.garden.example";

pub async fn run(client: Client) -> Result<(), Box<dyn Error>> {
    install(&client, "v1alpha1").await?;
    install(&client, "v1").await?;
    remove(&client).await
}

async fn install(client: &Client, stored: &str) -> Result<(), Box<dyn Error>> {
    let version = |name: &str| {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": { "openAPIV3Schema": schema },
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": NAME },
        "spec": {
            "group": "garden.example",
            "scope": "Cluster",
            "names": { "kind": "Tool", "plural": "tools" },
            "versions": [version("v1alpha1"), version("v1")],
        },
    });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let manager = PatchParams::apply("gardener").force();
    definitions.patch(NAME, &manager, &Patch::Apply(definition)).await?;
    let served = await_condition(definitions.clone(), NAME, conditions::is_crd_established());
    timeout(Duration::from_secs(30), served).await??;
    Ok(())
}

async fn remove(client: &Client) -> Result<(), Box<dyn Error>> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let deleted = definitions.delete(NAME, &DeleteParams::default()).await?;
    if let Some(uid) = deleted.left().and_then(|definition| definition.uid()) {
        await_condition(definitions, NAME, conditions::is_deleted(&uid)).await?;
    }
    Ok(())
}
