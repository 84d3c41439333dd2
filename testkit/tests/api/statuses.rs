//! Tests of the status of objects and of the status subresource.

use deltafifo_testkit::Resource;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::discovery::Scope;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use crate::common::{ONE, app, code, map, phase, refused, server};

#[tokio::test]
async fn status_subresource_changes_the_status_only() {
    let server = server();
    server.apply(app("a", "web")).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let patch =
        json!({ "metadata": { "labels": { "app": "mail" } }, "status": { "phase": "Running" } });
    let patched =
        pods.patch_status("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(patched.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(patched.metadata.labels.unwrap()["app"], "web");

    let mut done = pods.get_status("a").await.unwrap();
    done.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    done.metadata.labels = None;
    let done = pods.replace_status("a", &PostParams::default(), &done).await.unwrap();
    assert_eq!(done.status.unwrap().phase.as_deref(), Some("Succeeded"));
    assert_eq!(done.metadata.labels.unwrap()["app"], "web");
    assert_eq!(refused(&server, &format!("{ONE}/a/log")).await.code, 404);
    // A kind without a status subresource has no such path.
    server.apply(map("m", "1")).unwrap();
    let uri = "/api/v1/namespaces/default/configmaps/m/status";
    assert_eq!(refused(&server, uri).await.code, 404);
}

#[tokio::test]
async fn object_itself_keeps_its_status() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let new: Pod = serde_json::from_value(phase("a", "Running")).unwrap();
    let mut made = pods.create(&PostParams::default(), &new).await.unwrap();
    assert_eq!(made.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    made.status.as_mut().unwrap().phase = Some("Running".to_owned());
    made.metadata.labels = Some([("seen".to_owned(), "yes".to_owned())].into());
    let made = pods.replace("a", &PostParams::default(), &made).await.unwrap();
    assert_eq!(made.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    assert!(made.metadata.labels.is_some());
    let patch = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    let same = pods.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(same.metadata.resource_version, made.metadata.resource_version);

    // A custom resource without the subresource has its status in the object.
    let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Gadget"));
    let gadgets = Resource::custom(api.clone(), Scope::Namespaced).status_subresource(false);
    server.register(gadgets.clone());
    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &api);
    let gadget = DynamicObject::new("g", &api).data(json!({ "status": { "ready": true } }));
    all.create(&PostParams::default(), &gadget).await.unwrap();
    assert_eq!(server.get(&gadgets, "default", "g").unwrap()["status"]["ready"], true);
    assert_eq!(code(all.get_status("g").await), 404);
}
