//! Two reflectors, and a loop that reads both stores. There is no controller. (Shape:
//! Bottlerocket's update operator.)

use std::time::Duration;

use futures_util::{StreamExt, future};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use super::runtime::WatchStreamExt;
use super::runtime::reflector::{self, Store};
use super::runtime::watcher::{Config, watcher};

/// Reads the pods of one node.
pub struct Agent {
    nodes: Store<Node>,
    pods: Store<Pod>,
    node: String,
}

impl Agent {
    pub fn new(nodes: Store<Node>, pods: Store<Pod>, node: &str) -> Self {
        Self { nodes, pods, node: node.to_owned() }
    }

    /// Returns the state of the node, or `None` if it is not known.
    pub fn state(&self) -> Option<String> {
        let node = self.nodes.state().first().cloned()?;
        let is_here = |pod: &Pod| {
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&self.node)
        };
        let pods = self.pods.state_filter(is_here).len();
        Some(format!("{} runs {pods} of {} pods", node.name_any(), self.pods.len()))
    }

    async fn run(&self, say: impl Fn(String)) {
        loop {
            say(self.state().unwrap_or_else(|| "no node".to_owned()));
            sleep(Duration::from_secs(10)).await;
        }
    }
}

pub async fn run(client: Client, node: &str, say: impl Fn(String)) {
    let nodes: Api<Node> = Api::all(client.clone());
    let config = Config::default().fields(&format!("metadata.name={node}"));
    let node_writer = reflector::store::Writer::<Node>::default();
    let node_reader = node_writer.as_reader();
    let node_drain = reflector::reflector(node_writer, watcher(nodes, config).default_backoff())
        .touched_objects()
        .filter_map(|node| async move { Result::ok(node) })
        .for_each(|_node| future::ready(()));

    let pods: Api<Pod> = Api::all(client);
    let pod_writer = reflector::store::Writer::<Pod>::default();
    let pod_reader = pod_writer.as_reader();
    let pod_drain =
        reflector::reflector(pod_writer, watcher(pods, Config::default()).default_backoff())
            .touched_objects()
            .filter_map(|pod| async move { Result::ok(pod) })
            .for_each(|_pod| future::ready(()));

    let agent = Agent::new(node_reader, pod_reader, node);
    tokio::select! {
        () = node_drain => {}
        () = pod_drain => {}
        () = agent.run(say) => {}
    }
}
