//! Clients whose requests are refused or changed, and Leases that other programs have written.

use deltafifo_testkit::{ApiServer, Verb};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

pub(super) use crate::sharding::tests::rig::*;

/// Puts Leases of former members into the server.
pub(super) fn apply_former(server: &ApiServer, count: usize) {
    for number in 0..count {
        let gone = name_of(&format!("gone_{number:08x}"));
        server.apply(lease(&gone, &json!({ "leaseTransitions": 0 }))).unwrap();
    }
}

/// Puts a Lease without the label of the group into the server.
pub(super) fn apply_foreign(server: &ApiServer, name: &str) {
    let mut foreign = lease(name, &json!({ "holderIdentity": "an elector" }));
    foreign["metadata"]["labels"] = json!({});
    server.apply(foreign).unwrap();
}

/// Returns a client whose requests with this verb are forbidden.
pub(super) fn forbidding(server: &ApiServer, forbidden: Verb) -> Client {
    let client = server.client();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let verb = match *request.method() {
            http::Method::GET if is_watch => Verb::Watch,
            http::Method::GET => Verb::List,
            http::Method::POST => Verb::Create,
            http::Method::PUT => Verb::Update,
            _ => Verb::Delete,
        };
        let client = client.clone();
        async move {
            if verb != forbidden {
                return client.send(request).await;
            }
            let status = json!({ "kind": "Status", "reason": "Forbidden", "code": 403 });
            let answer = http::Response::builder().status(403);
            Ok(answer.body(Body::from(status.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
}

/// The writes in which a webhook removes metadata.
pub(super) type Strips = &'static [http::Method];

pub(super) const ALL_WRITES: Strips = &[http::Method::POST, http::Method::PUT];
pub(super) const UPDATES: Strips = &[http::Method::PUT];

/// Returns a client of the server through a webhook that removes the labels or the annotations from
/// the Leases of members, in the writes that the value of the sender has: at first all.
pub(super) fn stripping(
    server: &ApiServer,
    field: &'static str,
) -> (Client, watch::Sender<Strips>) {
    let client = server.client();
    let (strips, are_stripped) = watch::channel(ALL_WRITES);
    let webhook = tower::service_fn(move |request: http::Request<Body>| {
        let strips = are_stripped.borrow().contains(request.method());
        let client = client.clone();
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let mut lease: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let name = lease["metadata"]["name"].as_str().unwrap_or_default();
            let bytes = if strips && name.starts_with("counter-member-") {
                lease["metadata"][field] = json!({});
                lease.to_string().into_bytes()
            } else {
                bytes.to_vec()
            };
            client.send(http::Request::from_parts(parts, Body::from(bytes))).await
        }
    });
    (Client::new(webhook, "default"), strips)
}

/// Returns a client of the server beside another client, which removes the annotations from each
/// Lease of a member that the first one has updated.
pub(super) fn undone(server: &ApiServer) -> Client {
    let client = server.client();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            let is_update = request.method() == http::Method::PUT;
            let uri = request.uri().clone();
            let response = client.send(request).await?;
            if is_update && uri.path().contains("/counter-member-") && response.status() == 200 {
                let patch = json!({ "metadata": { "annotations": null } }).to_string();
                let patched = http::Request::patch(uri)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(patch.into_bytes()))
                    .unwrap();
                assert_eq!(client.send(patched).await?.status(), 200);
            }
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, "default")
}
