//! Mirrors the nodes of a zone, and says which ones have new labels or annotations. (Shape:
//! `node_reflector`.)

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use super::runtime::{Predicate, WatchStreamExt, predicates, reflector, watcher};

pub async fn run(
    client: Client,
    say: impl Fn(String) + Clone + Send + Sync + 'static,
) -> Result<(), watcher::Error> {
    let nodes: Api<Node> = Api::all(client);
    let config = watcher::Config::default().labels("zone=south").timeout(20);
    let (reader, writer) = reflector::store();
    let changed = watcher(nodes, config)
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::labels.combine(predicates::annotations), Default::default());
    let mut changed = pin!(changed);
    let say_count = say.clone();
    let reading = tokio::spawn(async move {
        reader.wait_until_ready().await.expect("the watch goes on");
        loop {
            let nodes: Vec<_> = reader.state();
            say_count(format!("{} nodes", nodes.len()));
            sleep(Duration::from_secs(10)).await;
        }
    });
    while let Some(node) = changed.try_next().await? {
        say(format!("{} has changed", node.name_any()));
    }
    reading.abort();
    Ok(())
}
