//! Says which nodes accept no pods, and the events about them. (Shape: `node_watcher`.)

use std::error::Error;
use std::pin::pin;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::runtime::{WatchStreamExt, watcher};

pub async fn run(
    client: Client,
    streaming: bool,
    say: impl Fn(String),
) -> Result<(), Box<dyn Error>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let config = watcher::Config::default();
    let config = if streaming { config.streaming_lists() } else { config };
    let mut nodes = pin!(watcher(nodes, config).default_backoff().applied_objects());
    while let Some(node) = nodes.try_next().await? {
        if node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true) {
            say(format!("{} accepts pods", node.name_any()));
            continue;
        }
        say(format!("{} is cordoned: {}", node.name_any(), failed_conditions(&node).join(", ")));
        let of_node = format!("involvedObject.kind=Node,involvedObject.name={}", node.name_any());
        let of_node = ListParams::default().fields(&of_node);
        for event in Api::<Event>::all(client.clone()).list(&of_node).await? {
            say(event.message.unwrap_or_default());
        }
    }
    Ok(())
}

/// Returns the types of the conditions that are not as those of a healthy node.
fn failed_conditions(node: &Node) -> Vec<&str> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| (condition.type_ == "Ready") != (condition.status == "True"))
        .map(|condition| &*condition.type_)
        .collect()
}
