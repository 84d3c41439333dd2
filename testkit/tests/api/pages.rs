//! Tests of lists in pages, and of their tokens.

use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::common::{PODS, app, list, listed, phase, pod, refused, server, server_with};

/// Returns the names of a page, its version, the token of the next page, and the number of
/// remaining objects.
async fn page(
    server: &ApiServer,
    params: &ListParams,
) -> (Vec<String>, String, Option<String>, Option<i64>) {
    let pods: Api<Pod> = Api::all(server.client());
    let list = pods.list(params).await.unwrap();
    let names = list.items.into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
    let metadata = list.metadata;
    (names, metadata.resource_version.unwrap(), metadata.continue_, metadata.remaining_item_count)
}

#[tokio::test]
async fn pages_are_of_one_version_despite_writes_between_them() {
    let server = server_with(5);
    let first = ListParams::default().limit(2);
    let (names, version, token, left) = page(&server, &first).await;
    assert_eq!((names, version.as_str(), left), (vec!["a".into(), "b".into()], "6", Some(3)));

    server.delete(&Resource::pods(), "default", "c").unwrap();
    server.apply(phase("d", "Running")).unwrap();
    server.apply(pod("d2")).unwrap();
    let (names, version, token, left) =
        page(&server, &first.clone().continue_token(&token.unwrap())).await;
    assert_eq!((names, version.as_str(), left), (vec!["c".into(), "d".into()], "6", Some(1)));

    server.apply(pod("f")).unwrap();
    let (names, version, token, left) =
        page(&server, &first.clone().continue_token(&token.unwrap())).await;
    assert_eq!((names, version.as_str(), token, left), (vec!["e".into()], "6", None, None));
}

#[tokio::test]
async fn full_last_page_has_no_token() {
    let server = server_with(4);
    let (_, _, token, left) = page(&server, &ListParams::default().limit(2)).await;
    assert_eq!(left, Some(2));
    let (names, _, token, left) =
        page(&server, &ListParams::default().limit(2).continue_token(&token.unwrap())).await;
    assert_eq!((names.len(), token, left), (2, None, None));
}

#[tokio::test]
async fn pages_with_a_selector_have_no_remaining_item_count() {
    let server = server();
    for (name, of) in [("a", "web"), ("b", "mail"), ("c", "web"), ("d", "mail"), ("e", "web")] {
        server.apply(app(name, of)).unwrap();
    }
    let first = ListParams::default().labels("app=web").limit(2);
    let (names, _, token, left) = page(&server, &first).await;
    assert_eq!((names, left), (vec!["a".into(), "c".into()], None));
    let (names, _, token, _) = page(&server, &first.clone().continue_token(&token.unwrap())).await;
    assert_eq!((names, token), (vec!["e".into()], None));

    // The real server ignores the selector to find out whether a page is the last one.
    let first = ListParams::default().labels("app=mail").limit(2);
    let (names, _, token, _) = page(&server, &first).await;
    assert_eq!(names, ["b", "d"]);
    let (names, _, token, _) = page(&server, &first.clone().continue_token(&token.unwrap())).await;
    assert_eq!((names.len(), token), (0, None));
}

#[tokio::test]
async fn expired_token_is_answered_with_a_token_for_the_newest_rest() {
    let server = server_with(4);
    let (_, _, token, _) = page(&server, &ListParams::default().limit(2)).await;
    server.delete(&Resource::pods(), "default", "c").unwrap();
    server.apply(pod("f")).unwrap();
    server.compact();

    let pods: Api<Pod> = Api::all(server.client());
    let old = ListParams::default().limit(2).continue_token(&token.unwrap());
    let Err(kube::Error::Api(status)) = pods.list(&old).await else {
        panic!("the token has not expired")
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(status.message.starts_with("The provided continue parameter is too old"));
    let rest = status.metadata.unwrap().continue_.unwrap();
    let (names, version, token, left) =
        page(&server, &ListParams::default().limit(1).continue_token(&rest)).await;
    assert_eq!((names, version.as_str(), left), (vec!["d".into()], "8", Some(1)));
    let (names, version, token, _) =
        page(&server, &ListParams::default().limit(1).continue_token(&token.unwrap())).await;
    assert_eq!((names, version.as_str(), token), (vec!["f".into()], "8", None));
}

#[tokio::test]
async fn token_is_valid_for_a_list_of_one_namespace() {
    let server = server();
    for namespace in ["mail", "shop"] {
        for name in ["a", "b", "c"] {
            let metadata = json!({ "name": name, "namespace": namespace });
            server
                .apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata }))
                .unwrap();
        }
    }
    let uri = "/api/v1/namespaces/shop/pods?limit=2";
    let first = list(&server, uri).await;
    assert_eq!(
        (listed(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a", "b"], &json!(1))
    );
    let token = first["metadata"]["continue"].as_str().unwrap();
    let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
    let second = list(&server, &format!("{uri}&continue={token}")).await;
    assert_eq!((listed(&second), &second["metadata"]["continue"]), (vec!["c"], &json!(null)));
}

#[tokio::test]
async fn remaining_objects_of_a_namespace_are_those_of_the_version_of_the_list() {
    let server = server();
    let of = |namespace: &str, name: &str| {
        let metadata = json!({ "name": name, "namespace": namespace });
        json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata })
    };
    for namespace in ["mail", "shop", "work"] {
        for name in ["a", "b", "c", "d", "e"] {
            server.apply(of(namespace, name)).unwrap();
        }
    }
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let mut params = ListParams::default().limit(2);
    let mut pages = Vec::new();
    loop {
        let page = pods.list(&params).await.unwrap();
        let names = page.items.iter().map(|pod| pod.metadata.name.clone().unwrap());
        pages.push((names.collect::<Vec<_>>().concat(), page.metadata.remaining_item_count));
        let Some(token) = page.metadata.continue_ else { break };
        params = params.continue_token(&token);
        server.delete(&Resource::pods(), "shop", "d").unwrap_or_default();
        server.apply(of("shop", &format!("c{}", pages.len()))).unwrap();
        server.apply(of("mail", &format!("f{}", pages.len()))).unwrap();
    }
    let expected = [("ab", Some(3)), ("cd", Some(1)), ("e", None)];
    assert_eq!(pages, expected.map(|(names, left)| (names.to_owned(), left)));
    // A list that begins now has the other objects.
    let page = pods.list(&ListParams::default().limit(3)).await.unwrap();
    assert_eq!(page.metadata.remaining_item_count, Some(3));
}

#[tokio::test]
async fn token_with_a_version_and_invalid_token_are_refused() {
    let server = server_with(3);
    let first = list(&server, &format!("{PODS}?limit=1")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
    assert_eq!(
        refused(&server, &format!("{PODS}?continue={token}&resourceVersion=3")).await.code,
        400
    );
    for nonsense in [
        "x",
        "1",
        "1%26",
        "1%26key%3D",
        "x%26key%3Da%2Fb",
        "1%26number%3Da%2Fb",
        "1%26key%3Da%2Fb%26remaining%3Dx",
        "99%26key%3Da%2Fb",
    ] {
        let status = refused(&server, &format!("{PODS}?continue={nonsense}")).await;
        assert_eq!(
            (status.code, status.message.as_str()),
            (400, "continue key is not valid"),
            "{nonsense}"
        );
    }
}
