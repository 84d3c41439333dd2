//! Creates a custom kind with defaults and a rule in its schema, and shows that the server applies
//! them. (Shape: `crd_derive_schema`.)

use std::error::Error;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::runtime::wait::{await_condition, conditions};

pub async fn run(client: Client, say: impl Fn(String)) -> Result<(), Box<dyn Error>> {
    create(client.clone()).await?;
    let types = ApiResource::from_gvk(&GroupVersionKind::gvk("garden.example", "v1", "Hose"));
    let hoses = Api::<DynamicObject>::default_namespaced_with(client, &types);
    let hose = |name, spec| DynamicObject::new(name, &types).data(json!({ "spec": spec }));
    let short = hoses.create(&PostParams::default(), &hose("short", json!({}))).await?;
    say(format!("default length: {}", short.data["spec"]["metres"]));
    let endless = hose("endless", json!({ "metres": -1 }));
    if let Err(kube::Error::Api(status)) = hoses.create(&PostParams::default(), &endless).await {
        say(format!("refused with {}", status.code));
    }
    Ok(())
}

async fn create(client: Client) -> Result<CustomResourceDefinition, Box<dyn Error>> {
    let name = "hoses.garden.example";
    let metres = json!({ "type": "integer", "default": 5, "minimum": 1 });
    let spec = json!({ "type": "object", "properties": { "metres": metres } });
    let definition = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "group": "garden.example",
            "scope": "Namespaced",
            "names": { "kind": "Hose", "plural": "hoses" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {
                    "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } },
                },
            }],
        },
    }))?;
    let definitions = Api::<CustomResourceDefinition>::all(client);
    definitions.create(&PostParams::default(), &definition).await?;
    let served = await_condition(definitions.clone(), name, conditions::is_crd_established());
    let _ = timeout(Duration::from_secs(30), served).await?;
    Ok(definitions.get(name).await?)
}
