//! Installs a custom kind with a server-side apply, waits until the server serves it, and applies
//! an object of it. (Shape: `crd_apply`.)

use std::error::Error;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use super::runtime::wait::{await_condition, conditions};

pub async fn run(client: Client, say: impl Fn(String)) -> Result<(), Box<dyn Error>> {
    let name = "pots.garden.example";
    let manager = PatchParams::apply("gardener").force();
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": name },
        "spec": {
            "group": "garden.example",
            "scope": "Namespaced",
            "names": { "kind": "Pot", "plural": "pots", "singular": "pot" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.patch(name, &manager, &Patch::Apply(definition)).await?;
    let served = await_condition(definitions, name, conditions::is_crd_established());
    let definition = timeout(Duration::from_secs(30), served).await??;
    say(definition.map_or_else(|| "gone".to_owned(), |definition| definition.name_any()));

    let types = ApiResource::from_gvk(&GroupVersionKind::gvk("garden.example", "v1", "Pot"));
    let pots = Api::<DynamicObject>::default_namespaced_with(client, &types);
    let pot = json!({
        "apiVersion": "garden.example/v1", "kind": "Pot", "metadata": { "name": "clay" },
        "spec": { "litres": 12 },
    });
    let pot = pots.patch("clay", &manager, &Patch::Apply(pot)).await?;
    say(format!("{}: {}", pot.name_any(), pot.data["spec"]["litres"]));
    Ok(())
}
