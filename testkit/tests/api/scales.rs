//! Tests of the subresource `scale`.

use deltafifo_testkit::{ApiServer, Resource};
use http::{Method, StatusCode};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::common::{call, open};

const ONE: &str = "/apis/apps/v1/namespaces/default/deployments/a";

fn server() -> ApiServer {
    ApiServer::builder().resources(Resource::known()).managed_fields(true).build()
}

fn object(kind: &str, replicas: u32) -> Value {
    json!({
        "kind": kind, "apiVersion": "apps/v1", "metadata": { "name": "a" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } } },
        "status": { "replicas": 1 },
    })
}

#[tokio::test]
async fn scale_reads_and_changes_the_number_of_replicas() {
    let server = server();
    server.apply(object("Deployment", 3)).unwrap();
    server.apply(object("StatefulSet", 3)).unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(server.client());
    let scale = deployments.get_scale("a").await.unwrap();
    let (wanted, status) = (scale.spec.unwrap().replicas, scale.status.unwrap());
    assert_eq!(
        (wanted, status.replicas, status.selector.as_deref()),
        (Some(3), 1, Some("app=web"))
    );

    let patch = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    let scale = deployments.patch_scale("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(5));
    let scaled = deployments.get("a").await.unwrap();
    assert_eq!(scaled.spec.replicas, Some(5));
    assert_eq!(scaled.metadata.generation, Some(2));
    assert_eq!(scale.metadata.resource_version, scaled.metadata.resource_version);

    let sets: Api<StatefulSet> = Api::default_namespaced(server.client());
    let mut scale = serde_json::to_value(sets.get_scale("a").await.unwrap()).unwrap();
    scale["spec"]["replicas"] = 0.into();
    let scale = serde_json::from_value(scale).unwrap();
    let scaled = sets.replace_scale("a", &PostParams::default(), &scale).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, None);
    assert_eq!(sets.get("a").await.unwrap().spec.replicas, Some(0));
    // The version is old now.
    let refused = sets.replace_scale("a", &PostParams::default(), &scale).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 409));
}

#[tokio::test]
async fn applied_scale_has_a_manager_of_the_number_of_replicas() {
    let server = server();
    let kind = |replicas: u32| {
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": { "name": "a" },
            "spec": { "replicas": replicas },
        })
    };
    let mut object = object("Deployment", 3);
    object.as_object_mut().unwrap().remove("status");
    let all = "/apis/apps/v1/namespaces/default/deployments?fieldManager=one";
    assert_eq!(call(&server, Method::POST, all, &object).await.0, StatusCode::CREATED);
    let deployments: Api<Deployment> = Api::default_namespaced(server.client());
    let (two, patch) = (PatchParams::apply("two"), Patch::Apply(kind(4)));
    let refused = deployments.patch_scale("a", &two, &patch).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 409));
    deployments.patch_scale("a", &two.force(), &patch).await.unwrap();
    let managers = deployments.get("a").await.unwrap().metadata.managed_fields.unwrap();
    let of_scale = managers.iter().find(|one| one.subresource.as_deref() == Some("scale")).unwrap();
    assert_eq!(of_scale.manager.as_deref(), Some("two"));
    let fields = serde_json::to_value(of_scale.fields_v1.as_ref().unwrap()).unwrap();
    assert_eq!(fields.pointer("/f:spec/f:replicas"), Some(&json!({})));
}

#[tokio::test]
async fn invalid_scales_and_kinds_without_a_scale_are_refused() {
    let server = server();
    server.apply(object("Deployment", 3)).unwrap();
    let scale = format!("{ONE}/scale");
    let body = |name: &str, replicas: Value| json!({ "metadata": { "name": name }, "spec": { "replicas": replicas } });
    for (method, body, code) in [
        (Method::PUT, body("a", (-1).into()), StatusCode::UNPROCESSABLE_ENTITY),
        (Method::PUT, body("a", "x".into()), StatusCode::BAD_REQUEST),
        (Method::PUT, body("b", 1.into()), StatusCode::BAD_REQUEST),
        (Method::PUT, json!({}), StatusCode::BAD_REQUEST),
        (Method::PUT, object("Deployment", 1), StatusCode::BAD_REQUEST),
        (Method::DELETE, Value::Null, StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, body("a", 1.into()), StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let (refused, status) = call(&server, method, &scale, &body).await;
        assert_eq!(refused, code, "{body}: {status}");
    }
    for path in [
        "/apis/apps/v1/namespaces/default/deployments/missing/scale",
        "/apis/apps/v1/namespaces/default/daemonsets/a/scale",
        "/api/v1/namespaces/default/pods/a/scale",
    ] {
        assert_eq!(open(&server, path).await.code, StatusCode::NOT_FOUND, "{path}");
    }
}

/// Returns a server with the definition of gadgets, whose scale has the path `.spec.size`.
async fn server_of_gadgets(scale: &Value) -> (ApiServer, StatusCode) {
    let server = server();
    let definition = json!({
        "metadata": { "name": "gadgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Gadget", "plural": "gadgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {}, "scale": scale },
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let code = call(&server, Method::POST, path, &definition).await.0;
    (server, code)
}

fn gadget(spec: &Value) -> Value {
    json!({
        "kind": "Gadget", "apiVersion": "example.com/v1", "metadata": { "name": "a" }, "spec": spec,
    })
}

const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

#[tokio::test]
async fn custom_resource_has_the_scale_of_its_definition() {
    let paths = json!({ "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size" });
    let (server, _) = server_of_gadgets(&paths).await;
    let all = format!("{GADGETS}?fieldManager=one");
    call(&server, Method::POST, &all, &gadget(&json!({ "size": 3 }))).await;
    let path = format!("{GADGETS}/a/scale");
    let scale = call(&server, Method::GET, &path, &Value::Null).await.1;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let body = json!({ "metadata": { "name": "a" }, "spec": { "replicas": 4 } });
    let put = format!("{path}?fieldManager=two");
    let (code, scaled) = call(&server, Method::PUT, &put, &body).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (StatusCode::OK, &json!(4)));
    let (_, object) = call(&server, Method::GET, &format!("{GADGETS}/a"), &Value::Null).await;
    assert_eq!(object["spec"], json!({ "size": 4 }));
    let managers = &object["metadata"]["managedFields"];
    let two = managers.as_array().unwrap().iter().find(|one| one["manager"] == "two").unwrap();
    assert_eq!(
        (&two["subresource"], &two["apiVersion"]),
        (&json!("scale"), &json!("example.com/v1"))
    );
    assert_eq!(two["fieldsV1"], json!({ "f:spec": { "f:size": {} } }));
}

#[tokio::test]
async fn custom_resource_without_the_declaration_has_no_scale() {
    let (server, code) = server_of_gadgets(&Value::Null).await;
    assert_eq!(code, StatusCode::CREATED);
    call(&server, Method::POST, GADGETS, &gadget(&json!({ "size": 3 }))).await;
    let (code, status) =
        call(&server, Method::GET, &format!("{GADGETS}/a/scale"), &Value::Null).await;
    assert_eq!((code, &status["details"]["kind"]), (StatusCode::NOT_FOUND, &json!("gadgets")));
    let paths = json!({ "specReplicasPath": ".status.size", "statusReplicasPath": ".status.size" });
    assert_eq!(server_of_gadgets(&paths).await.1, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn scale_to_zero_and_later_ones_have_no_manager() {
    let server = server();
    let all = "/apis/apps/v1/namespaces/default/deployments?fieldManager=one";
    let mut object = object("Deployment", 3);
    object.as_object_mut().unwrap().remove("status");
    call(&server, Method::POST, all, &object).await;
    let managers = async || {
        let object = call(&server, Method::GET, ONE, &Value::Null).await.1;
        let all = object["metadata"]["managedFields"].as_array().unwrap().clone();
        let has = |one: &Value| one.pointer("/fieldsV1/f:spec/f:replicas").is_some();
        all.into_iter().filter(has).map(|one| one["manager"].clone()).collect::<Vec<_>>()
    };
    for (replicas, expected) in [(2, vec!["two"]), (0, vec![]), (5, vec![])] {
        let body = json!({ "metadata": { "name": "a" }, "spec": { "replicas": replicas } });
        let path = format!("{ONE}/scale?fieldManager=two");
        assert_eq!(call(&server, Method::PUT, &path, &body).await.0, StatusCode::OK);
        assert_eq!(managers().await, expected, "{replicas}");
    }
}
