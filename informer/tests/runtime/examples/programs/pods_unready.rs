//! Says which pods are not ready, and why. (Shape: `pod_watcher`.)

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};

use super::runtime::{WatchStreamExt, watcher};

pub async fn run(
    client: Client,
    streaming: bool,
    say: impl Fn(String),
) -> Result<(), watcher::Error> {
    let pods = Api::<Pod>::default_namespaced(client);
    let config = watcher::Config::default();
    let config = if streaming { config.streaming_lists() } else { config };
    watcher(pods, config)
        .applied_objects()
        .default_backoff()
        .try_for_each(|pod| {
            let reason = unready(&pod).unwrap_or("ready");
            say(format!("{}: {reason}", pod.name_any()));
            async { Ok(()) }
        })
        .await
}

/// Returns why the pod is not ready, or `None` if it is, or is a job's.
fn unready(pod: &Pod) -> Option<&str> {
    if pod.labels().contains_key("job-name") {
        return None;
    }
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let unready = conditions.find(|found| found.type_ == "Ready" && found.status == "False")?;
    Some(unready.message.as_deref().unwrap_or("unknown"))
}
