//! Tests of writes by the test itself, without a client.

use deltafifo_testkit::{Error, Resource};
use http::StatusCode;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::json;

use crate::common::{PODS, code, map, open, phase, refused, server, widget_api, widgets};

#[tokio::test]
async fn test_writes_without_http_and_watches_see_it() {
    let server = server();
    let mut watch = open(&server, &format!("{PODS}?watch=true")).await;
    assert_eq!(server.apply(phase("a", "Pending")).unwrap(), 2);
    // The version in the object is ignored.
    let mut seen = server.get(&Resource::pods(), "default", "a").unwrap();
    seen["metadata"]["resourceVersion"] = "1".into();
    seen["status"]["phase"] = "Running".into();
    assert_eq!(server.apply(&seen).unwrap(), 3);
    assert_eq!(server.delete(&Resource::pods(), "default", "a").unwrap(), 4);
    watch.events(["ADDED a 2", "MODIFIED a 3", "DELETED a 4"]).await;
    assert!(server.get(&Resource::pods(), "default", "a").is_none());
    server.apply(map("typed", "1")).unwrap();
    assert_eq!(
        server.get(&Resource::config_maps(), "default", "typed").unwrap()["data"]["key"],
        "1"
    );
}

#[tokio::test]
async fn errors_of_the_test_side_name_cause_and_remedy() {
    let server = server();
    let unknown = server.apply(json!({ "kind": "Gadget", "apiVersion": "v1" })).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "kind \"Gadget\" of \"v1\" is not served; register its resource first"
    );
    assert!(matches!(
        server.apply(json!({ "kind": "Pod", "apiVersion": "v1" })),
        Err(Error::Refused(_))
    ));
    assert!(matches!(server.delete(&Resource::pods(), "default", "a"), Err(Error::Refused(_))));
}

#[tokio::test]
async fn resource_registered_later_is_served() {
    let server = deltafifo_testkit::ApiServer::builder().resource(Resource::pods()).build();
    let all: Api<DynamicObject> = Api::all_with(server.client(), &widget_api());
    // For a group that is not served the response is not a Status.
    let opened = open(&server, "/apis/example.com/v1/widgets").await;
    assert_eq!(
        (opened.code, opened.text().await.as_str()),
        (StatusCode::NOT_FOUND, "404 page not found\n")
    );
    assert_eq!(code(all.list(&ListParams::default()).await), 404);
    let status = refused(&server, "/api/v1/secrets").await;
    assert_eq!(status.message, "the server could not find the requested resource");

    server.register(widgets());
    server.register(widgets());
    assert!(all.list(&ListParams::default()).await.unwrap().items.is_empty());
}
