//! A simulated cluster whose namespace `shop` has deployments that change.

use std::time::Duration;

use deltafifo_informer::error_chain;
use deltafifo_testkit::{ApiServer, Resource, status};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::core::ApiResource;
use kube::core::discovery;
use serde_json::json;
use tokio::time::interval;

fn deployments() -> Resource {
    Resource::built_in(ApiResource::erase::<Deployment>(&()), discovery::Scope::Namespaced)
}

/// Returns the server of the simulated cluster.
pub fn simulated() -> ApiServer {
    ApiServer::builder().resource(deployments()).build()
}

/// Returns a client of the simulated cluster, and starts to change it: deployments are created,
/// become available, are scaled and deleted. Sometimes a watch breaks or expires.
pub fn client(server: &ApiServer) -> Client {
    let server = server.clone();
    let client = server.client();
    tokio::spawn(async move {
        let deployment = |number: u32, replicas: u32, available: u32| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "namespace": "shop", "name": format!("web-{number}") },
                "spec": { "replicas": replicas, "selector": {}, "template": {} },
                "status": { "replicas": replicas, "availableReplicas": available },
            })
        };
        let mut beat = interval(Duration::from_millis(500));
        for number in 0_u32.. {
            beat.tick().await;
            let mut written = vec![server.apply(deployment(number, 1, 0))];
            written.extend(number.checked_sub(1).map(|one| server.apply(deployment(one, 1, 1))));
            written.extend(number.checked_sub(3).map(|one| server.apply(deployment(one, 3, 1))));
            written.extend(
                number
                    .checked_sub(6)
                    .map(|one| server.delete(&deployments(), "shop", &format!("web-{one}"))),
            );
            if let Some(error) = written.into_iter().find_map(Result::err) {
                eprintln!("the simulated cluster failed: {}", error_chain(&error));
            }
            if number % 10 == 9 {
                server.break_watches();
            }
            if number % 30 == 24 {
                server.error_watches(status::expired("too old resource version"));
            }
        }
    });
    client
}
