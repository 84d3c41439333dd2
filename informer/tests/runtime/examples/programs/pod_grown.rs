//! Gives a running pod more memory without a restart. (Shape: `pod_resize`.)

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::runtime::wait::{await_condition, conditions::is_pod_running};

pub async fn run(client: Client, say: impl Fn(String)) -> Result<(), Box<dyn Error>> {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let with_memory = |memory: &str| {
        let resources = json!({ "limits": { "memory": memory } });
        json!({ "name": "main", "image": "garden/pump:2", "resources": resources })
    };
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "pump" },
        "spec": { "containers": [with_memory("64Mi")] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let running = await_condition(pods.clone(), "pump", is_pod_running());
    let _ = timeout(Duration::from_secs(30), running).await?;
    let more = Patch::Strategic(json!({ "spec": { "containers": [with_memory("128Mi")] } }));
    pods.patch_resize("pump", &PatchParams::default(), &more).await?;
    let mut pod = pods.get_resize("pump").await?;
    if let Some(container) = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()) {
        let limits = container.resources.get_or_insert_default().limits.get_or_insert_default();
        limits.insert("memory".into(), Quantity("256Mi".into()));
    }
    pods.replace_resize("pump", &PostParams::default(), &pod).await?;
    say("grown twice".to_owned());
    pods.delete("pump", &DeleteParams::default()).await?;
    Ok(())
}
