//! Tests of many concurrent clients on several threads.

use std::collections::BTreeMap;

use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::common::{PODS, list, open, pod, server};

const WRITERS: usize = 4;
const TURNS: usize = 60;
/// The names that all clients write. The last two belong to generated pods.
const NAMES: [&str; 4] = ["a", "b", "pods-0", "pods-1"];

/// Creates, patches and deletes the pods. Returns the number of writes that succeeded.
async fn write(server: ApiServer, writer: usize) -> usize {
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let mut written = 0;
    for turn in 0..TURNS {
        let name = NAMES[(turn / 3 + writer) % NAMES.len()];
        let labels =
            Patch::Merge(json!({ "metadata": { "labels": { "by": format!("{writer}-{turn}") } } }));
        let done = match turn % 3 {
            0 => pods
                .create(&PostParams::default(), &serde_json::from_value(pod(name)).unwrap())
                .await
                .map(drop),
            1 => pods.patch(name, &PatchParams::default(), &labels).await.map(drop),
            _ => pods.delete(name, &DeleteParams::default()).await.map(drop),
        };
        match done {
            Ok(()) => written += 1,
            Err(kube::Error::Api(status)) => assert!([404, 409].contains(&status.code), "{status}"),
            Err(error) => panic!("{error}"),
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writes_cause_one_event_each_in_one_order() {
    let server = server();
    let first = server.generate(&Resource::pods(), 2, |_| json!({})).unwrap();
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion={first}")).await;
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write(server.clone(), writer))).collect();
    let passers_by = tokio::spawn({
        let server = server.clone();
        async move {
            for _ in 0..TURNS {
                drop(open(&server, &format!("{PODS}?watch=true")).await);
                list(&server, &format!("{PODS}?limit=1")).await;
            }
        }
    });
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    passers_by.await.unwrap();
    assert_eq!(server.version(), first + written as u64);
    assert_eq!(server.end_watches(), 1);

    let mut known = BTreeMap::from([("pods-0".to_owned(), 2), ("pods-1".to_owned(), 3)]);
    let mut last = first;
    while let Some(line) = watch.line().await {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let metadata = &event["object"]["metadata"];
        let version: u64 = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert_eq!(version, last + 1);
        last = version;
        let name = metadata["name"].as_str().unwrap().to_owned();
        let before = match event["type"].as_str().unwrap() {
            "DELETED" => known.remove(&name),
            _ => known.insert(name, version),
        };
        assert_eq!(before.is_none(), event["type"] == "ADDED", "{event}");
    }
    assert_eq!(last, server.version());
    let newest = list(&server, PODS).await;
    let seen = |item: &Value| {
        let text = |field: &str| item["metadata"][field].as_str().unwrap().to_owned();
        (text("name"), text("resourceVersion").parse().unwrap())
    };
    assert_eq!(
        newest["items"].as_array().unwrap().iter().map(seen).collect::<BTreeMap<_, u64>>(),
        known
    );
}
