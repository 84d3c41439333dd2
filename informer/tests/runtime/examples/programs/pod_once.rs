//! Creates a pod, waits until it runs, limits its life, and deletes it. (Shape: `pod_api`.)

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use super::runtime::wait::{await_condition, conditions::is_pod_running};

pub async fn run(client: Client, say: impl Fn(String)) -> Result<(), Box<dyn Error>> {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "greenhouse" },
        "spec": { "containers": [{ "name": "heater", "image": "garden/heater:1" }] },
    }))?;
    match pods.create(&PostParams::default(), &pod).await {
        Err(kube::Error::Api(status)) if status.code == 409 => say("existed".to_owned()),
        created => say(format!("created {}", created?.name_any())),
    }
    let running = await_condition(pods.clone(), "greenhouse", is_pod_running());
    let _ = timeout(Duration::from_secs(30), running).await?;
    let pod = pods.get("greenhouse").await?;
    let limit = json!({
        "metadata": { "resourceVersion": pod.resource_version() },
        "spec": { "activeDeadlineSeconds": 90 },
    });
    pods.patch("greenhouse", &PatchParams::default(), &Patch::Merge(limit)).await?;
    let of_name = ListParams::default().fields("metadata.name=greenhouse");
    for pod in pods.list(&of_name).await? {
        let seconds = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        say(format!("{} lives for {seconds:?}", pod.name_any()));
    }
    pods.delete("greenhouse", &DeleteParams::default())
        .await?
        .map_left(|pod| say(format!("deletes {}", pod.name_any())));
    Ok(())
}
