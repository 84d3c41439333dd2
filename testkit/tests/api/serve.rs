//! Tests of the server on a TCP address, and of custom resources that a client defines.

use deltafifo_testkit::{After, ApiServer, Fault, Resource, Verb};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::pin::pin;

use crate::common::{server, widget_api};

fn map(name: &str) -> Value {
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": name } })
}

/// Returns a client that connects to this URL.
fn connecting(url: &str) -> Client {
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn clients_list_watch_and_write_over_a_connection() {
    let server = server();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    assert_eq!(serving.kubeconfig()["clusters"][0]["cluster"]["server"], serving.url());
    let maps: Api<ConfigMap> = Api::default_namespaced(connecting(&serving.url()));
    let mut watch = pin!(maps.watch(&WatchParams::default(), "1").await.unwrap());
    let new: ConfigMap = serde_json::from_value(map("a")).unwrap();
    maps.create(&PostParams::default(), &new).await.unwrap();
    let Some(WatchEvent::Added(seen)) = watch.try_next().await.unwrap() else {
        panic!("another event")
    };
    assert_eq!(seen.metadata.name.as_deref(), Some("a"));
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(server.get(&Resource::config_maps(), "default", "a").is_none());
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn body_of_more_than_3_mib_is_refused_and_the_client_reads_why() {
    let server = server();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    for client in [server.client(), connecting(&serving.url())] {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let write = async |bytes: usize| {
            let mut object = map("a");
            object["data"] = json!({ "text": "" });
            let rest = object.to_string().len();
            object["data"]["text"] = "x".repeat(bytes - rest).into();
            let patch = Patch::Merge(object);
            maps.patch("a", &PatchParams::default(), &patch).await.map(drop)
        };
        let Err(kube::Error::Api(status)) = write((3 << 20) + 1).await else {
            panic!("another answer")
        };
        let message = "Request entity too large: limit is 3145728";
        assert_eq!((status.code, status.reason.as_str()), (413, "RequestEntityTooLarge"));
        assert_eq!(status.message, message);
        // The limit is not exceeded, and so the server looks for the object.
        assert!(
            matches!(write(3 << 20).await, Err(kube::Error::Api(status)) if status.code == 404)
        );
    }
}

#[tokio::test]
async fn fault_breaks_the_connection() {
    let server = server();
    server.apply(map("a")).unwrap();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let maps: Api<ConfigMap> = Api::all(connecting(&serving.url()));
    server.fault(Fault::broken(After::Bytes(5)).on(Verb::List));
    assert!(maps.list(&ListParams::default()).await.is_err());
    server.fault(Fault::refused());
    assert!(maps.list(&ListParams::default()).await.is_err());
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn dropped_address_ends_watches_and_keeps_objects() {
    let server = server();
    server.apply(map("a")).unwrap();
    let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let maps: Api<ConfigMap> = Api::all(connecting(&serving.url()));
    let mut watch = pin!(maps.watch(&WatchParams::default(), "2").await.unwrap());
    server.wait_for_watchers(1).await;
    drop(serving);
    assert!(!matches!(watch.next().await, Some(Ok(_))));
    server.wait_for_watchers(0).await;
    assert!(maps.list(&ListParams::default()).await.is_err());
    assert!(server.get(&Resource::config_maps(), "default", "a").is_some());
}

#[tokio::test]
async fn created_definition_is_served_and_established() {
    let server = ApiServer::builder().resources(Resource::known()).build();
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let schema = json!({ "type": "object", "properties": { "status": {
        "type": "object", "properties": { "conditions": {
            "type": "array", "items": { "type": "object" },
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        } },
    } } });
    let definition = json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "selectableFields": [{ "jsonPath": ".spec.colour" }],
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    let new: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &new).await.unwrap();
    let made = definitions.get("widgets.example.com").await.unwrap();
    let conditions = made.status.unwrap().conditions.unwrap();
    assert!(conditions.iter().any(|one| one.type_ == "Established" && one.status == "True"));

    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &widget_api());
    let widget =
        DynamicObject::new("w", &widget_api()).data(json!({ "spec": { "colour": "red" } }));
    all.create(&PostParams::default(), &widget).await.unwrap();
    let red = ListParams::default().fields("spec.colour=red");
    assert_eq!(all.list(&red).await.unwrap().items.len(), 1);
    for kind in ["Ready", "Synced"] {
        let status = json!({
            "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "w" },
            "status": { "conditions": [{ "type": kind, "status": "True" }] },
        });
        all.patch_status("w", &PatchParams::apply(kind), &Patch::Apply(status)).await.unwrap();
    }
    let found = all.get("w").await.unwrap();
    assert_eq!(found.data["status"]["conditions"].as_array().unwrap().len(), 2);
}
