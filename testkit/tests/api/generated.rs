//! Tests of generated objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deltafifo_testkit::{ApiServer, Error, Resource};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::common::{PODS, builder, list, listed, open, pod, refused, server};

/// Returns a server with `count` generated pods; every tenth has the label `nth=yes`.
fn generated(count: u64) -> ApiServer {
    let server = server();
    let nth = |number: u64| if number.is_multiple_of(10) { "yes" } else { "no" };
    server
        .generate(
            &Resource::pods(),
            count,
            move |number| json!({ "metadata": { "labels": { "nth": nth(number) } } }),
        )
        .unwrap();
    server
}

#[tokio::test]
async fn generated_objects_are_produced_while_the_list_is_read() {
    let made = Arc::new(AtomicU64::new(0));
    let server = server();
    let count = Arc::clone(&made);
    let version = server
        .generate(&Resource::pods(), 1_000_000, move |_| {
            count.fetch_add(1, Ordering::Relaxed); // A count of one thread.
            json!({})
        })
        .unwrap();
    assert_eq!(version, 1_000_001);
    for uri in [PODS.to_owned(), format!("{PODS}?limit=900000"), format!("{PODS}?watch=true")] {
        let before = made.load(Ordering::Relaxed);
        let mut opened = open(&server, &uri).await;
        for _ in 0..3 {
            assert!(opened.frame().await.unwrap().unwrap().len() <= 16 << 10);
        }
        let read = made.load(Ordering::Relaxed) - before;
        assert!((100..1000).contains(&read), "{read}");
    }
}

#[tokio::test]
async fn reading_a_long_list_yields_to_other_tasks() {
    let server = builder().frame_size(64).build();
    server.generate(&Resource::pods(), 1000, |_| json!({})).unwrap();
    let opened = open(&server, PODS).await;
    let reader = tokio::spawn(opened.text());
    tokio::task::yield_now().await;
    assert!(!reader.is_finished());
    assert!(reader.await.unwrap().len() > 100_000);
}

#[tokio::test]
async fn generated_objects_are_listed_with_distinct_versions() {
    let server = generated(5000);
    server.apply(pod("stored")).unwrap();
    let pods: Api<Pod> = Api::all(server.client());
    let list = pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 5001);
    let metadata = |at: usize| {
        let metadata = &list.items[at].metadata;
        (metadata.name.as_deref().unwrap(), metadata.resource_version.as_deref().unwrap())
    };
    assert_eq!(
        (metadata(0), metadata(1), metadata(5000)),
        (("stored", "5002"), ("pods-0", "2"), ("pods-4999", "5001"))
    );
    let mut uids: Vec<_> = list.items.iter().map(|pod| pod.metadata.uid.clone().unwrap()).collect();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), 5001);
}

#[tokio::test]
async fn pages_of_generated_objects_are_of_one_version() {
    let server = generated(10);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let all: Api<Pod> = Api::all(server.client());
    let first = all.list(&ListParams::default().limit(4)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(6));
    for name in ["pods-1", "pods-5"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let label = Patch::Merge(json!({ "metadata": { "labels": { "nth": "changed" } } }));
    pods.patch("pods-6", &PatchParams::default(), &label).await.unwrap();
    let rest = ListParams::default().continue_token(&first.metadata.continue_.unwrap());
    let second = all.list(&rest.clone().limit(4)).await.unwrap();
    let seen = |pods: &[Pod]| {
        let name = |pod: &Pod| {
            let metadata = &pod.metadata;
            format!(
                "{} {}",
                metadata.name.as_deref().unwrap(),
                metadata.resource_version.as_deref().unwrap()
            )
        };
        pods.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(seen(&second.items), ["pods-4 6", "pods-5 7", "pods-6 8", "pods-7 9"]);
    assert_eq!(second.metadata.remaining_item_count, Some(2));

    let newest = all.list(&ListParams::default().limit(3)).await.unwrap();
    assert_eq!(seen(&newest.items), ["pods-6 14", "pods-0 2", "pods-2 4"]);
    assert_eq!(newest.metadata.remaining_item_count, Some(5));
}

#[tokio::test]
async fn pages_of_selected_generated_objects_are_complete() {
    let server = generated(95);
    let pods: Api<Pod> = Api::all(server.client());
    let mut params = ListParams::default().labels("nth=yes").limit(4);
    let mut names = Vec::new();
    let mut pages = 0;
    loop {
        let page = pods.list(&params).await.unwrap();
        assert_eq!(page.metadata.remaining_item_count, None);
        names.extend(page.items.into_iter().map(|pod| pod.metadata.name.unwrap()));
        pages += 1;
        let Some(token) = page.metadata.continue_ else { break };
        params = params.continue_token(&token);
    }
    assert_eq!((pages, names.len(), names.last().unwrap().as_str()), (3, 10, "pods-90"));
}

#[tokio::test]
async fn expired_token_behind_the_last_stored_object_continues_with_new_objects() {
    let server = generated(2);
    server.apply(pod("a")).unwrap();
    let pods: Api<Pod> = Api::all(server.client());
    let page = pods.list(&ListParams::default().limit(1)).await.unwrap();
    server.apply(pod("b")).unwrap();
    server.compact();
    let old = ListParams::default().continue_token(&page.metadata.continue_.unwrap());
    let Err(kube::Error::Api(status)) = pods.list(&old).await else {
        panic!("the token has not expired")
    };
    let rest = ListParams::default().continue_token(&status.metadata.unwrap().continue_.unwrap());
    let names =
        pods.list(&rest).await.unwrap().items.into_iter().map(|pod| pod.metadata.name.unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["b", "pods-0", "pods-1"]);
}

#[tokio::test]
async fn token_beyond_the_generated_objects_returns_the_end_of_the_list() {
    let server = generated(3);
    for beyond in ["0/3", "0/18446744073709551615", "1/0", "18446744073709551615/7"] {
        let list = list(
            &server,
            &format!("{PODS}?limit=5&continue={}", token(&format!("4&number={beyond}"))),
        )
        .await;
        assert_eq!(
            (listed(&list), &list["metadata"]["continue"]),
            (vec![], &json!(null)),
            "{beyond}"
        );
    }
}

#[tokio::test]
async fn written_generated_object_behaves_as_a_stored_one() {
    let server = generated(20);
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=21")).await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let mut seven = pods.get("pods-7").await.unwrap();
    let uid = seven.metadata.uid.clone();
    seven.metadata.labels = None;
    let seven = pods.replace("pods-7", &PostParams::default(), &seven).await.unwrap();
    assert_eq!(
        (seven.metadata.resource_version.as_deref(), &seven.metadata.uid),
        (Some("22"), &uid)
    );
    pods.delete("pods-8", &DeleteParams::default()).await.unwrap();
    server.delete(&Resource::pods(), "default", "pods-7").unwrap();
    let mut again = pod("pods-7");
    again["metadata"]["labels"] = json!({ "again": "yes" });
    server.apply(again).unwrap();
    watch
        .events(["MODIFIED pods-7 22", "DELETED pods-8 23", "DELETED pods-7 24", "ADDED pods-7 25"])
        .await;
    let list = list(&server, PODS).await;
    assert_eq!(listed(&list).len(), 19);
    assert_eq!(listed(&list)[0], "pods-7");
    assert!(pods.get_opt("pods-8").await.unwrap().is_none());
    assert_ne!(pods.get("pods-7").await.unwrap().metadata.uid, uid);
}

#[tokio::test]
async fn generated_name_cannot_be_created_and_other_names_can() {
    let server = generated(20);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    for (name, is_there) in
        [("pods-19", true), ("pods-20", false), ("pods", false), ("pods-007", false), ("9", false)]
    {
        let pod: Pod = serde_json::from_value(pod(name)).unwrap();
        assert_eq!(pods.create(&PostParams::default(), &pod).await.is_err(), is_there, "{name}");
    }
}

#[tokio::test]
async fn object_generated_during_its_creation_is_found() {
    let server = server();
    let armed = Arc::new(AtomicBool::new(false));
    let make = {
        let (server, armed) = (server.clone(), Arc::clone(&armed));
        move |_| {
            // Relaxed: all of this runs on one thread.
            if armed.swap(false, Ordering::Relaxed) {
                let late =
                    |number: u64| json!({ "metadata": { "name": format!("late-{number}") } });
                server.generate(&Resource::pods(), 5, late).unwrap();
            }
            json!({})
        }
    };
    server.generate(&Resource::pods(), 5, make).unwrap();
    armed.store(true, Ordering::Relaxed);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let late: Pod = serde_json::from_value(pod("late-3")).unwrap();
    let Err(kube::Error::Api(status)) = pods.create(&PostParams::default(), &late).await else {
        panic!("created")
    };
    assert_eq!(status.code, 409);
    assert!(!armed.load(Ordering::Relaxed));
}

#[tokio::test]
async fn page_of_a_namespace_is_found_although_the_function_of_its_objects_writes() {
    let server = server();
    let make = {
        let server = server.clone();
        move |number: u64| {
            server
                .apply(json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": { "name": format!("node-{number}") },
                }))
                .unwrap();
            json!({})
        }
    };
    server.generate(&Resource::pods(), 5, make).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let page = pods.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(page.items.len(), 2);
    assert!(page.metadata.continue_.is_some());
}

#[tokio::test]
async fn generated_objects_cause_no_events_and_end_open_watches() {
    let server = server();
    server.apply(pod("a")).unwrap();
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=1")).await;
    let mut other = open(&server, "/api/v1/nodes?watch=true").await;
    server.generate(&Resource::pods(), 3, |_| json!({})).unwrap();
    watch.events(["ADDED a 2", "ERROR 410 Expired"]).await;
    watch.over().await;
    other.silent();
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=4")).await;
    watch.events(["ERROR 410 Expired"]).await;
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=5")).await;
    watch.silent();
    assert_eq!(
        refused(&server, &format!("{PODS}?resourceVersion=2&resourceVersionMatch=Exact"))
            .await
            .code,
        410
    );
}

#[tokio::test]
async fn custom_generated_names_must_end_in_the_number() {
    let server = server();
    let named = |number: u64| {
        let metadata = json!({ "name": format!("web1{number:04}"), "namespace": format!("shop{}", number % 3) });
        json!({ "metadata": metadata })
    };
    server.generate(&Resource::pods(), 100, named).unwrap();
    server
        .generate(
            &Resource::pods(),
            50,
            |number| json!({ "metadata": { "name": format!("mail-{number}") } }),
        )
        .unwrap();
    server.generate(&Resource::nodes(), 2, |_| json!({})).unwrap();
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop0");
    assert_eq!(
        pods.get("web10042").await.unwrap().metadata.resource_version.as_deref(),
        Some("44")
    );
    assert!(pods.get_opt("web10043").await.unwrap().is_none());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 34);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    assert_eq!(
        pods.get("mail-49").await.unwrap().metadata.resource_version.as_deref(),
        Some("151")
    );
    let nodes: Api<Node> = Api::all(server.client());
    assert_eq!(nodes.get("nodes-1").await.unwrap().metadata.namespace, None);

    let error = server.generate(
        &Resource::pods(),
        5,
        |number| json!({ "metadata": { "name": format!("{number}-x") } }),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "generated object 0 cannot be found by its name \"0-x\"; end the name in 0, or leave it out"
    );
    assert!(matches!(server.generate(&Resource::pods(), 5, |_| json!([])), Err(Error::Refused(_))));
    assert_eq!(server.generate(&Resource::pods(), 0, |_| json!([])).unwrap(), server.version());
}

#[tokio::test]
async fn generated_objects_can_all_be_deleted() {
    let server = generated(30);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let nth = ListParams::default().labels("nth=yes");
    pods.delete_collection(&DeleteParams::default(), &nth).await.unwrap();
    assert_eq!(listed(&list(&server, PODS).await).len(), 27);
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert_eq!(listed(&list(&server, PODS).await).len(), 0);
}

/// Returns a page token as the server writes it.
fn token(text: &str) -> String {
    let digits = text.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
