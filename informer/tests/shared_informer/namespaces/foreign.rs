//! Tests of objects of another namespace, which an informer refuses.

use deltafifo_informer::ReflectorError;
use deltafifo_informer::lister_watcher::{EventType, Listed, PageMeta, RawEvent, Scripted};
use deltafifo_informer::shared_informer::InformerError;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::rig::{LONG, of, stored, wait_for_stored};
use crate::rig::{Informer, QUEUES, run};

fn script(objects: [String; 1], then: Vec<RawEvent>) -> Scripted {
    let page = PageMeta { resource_version: "5".to_owned(), ..PageMeta::default() };
    let items = objects.into_iter().map(Into::into).collect();
    Scripted::new()
        .list([Ok(Listed::Meta(page)), Ok(Listed::Items(items))])
        .watch_on(then.into_iter().map(Ok).collect::<Vec<_>>())
}

fn raw(namespace: &str, name: &str, version: u64) -> String {
    let map = json!({
        "metadata": { "namespace": namespace, "name": name, "resourceVersion": version.to_string() },
        "data": { "data": version.to_string() },
    });
    map.to_string()
}

#[tokio::test(start_paused = true)]
async fn object_of_another_namespace_is_refused() {
    for choose in QUEUES {
        let (reports, mut reported) = mpsc::unbounded_channel();
        let namespaces = of(["blue", "green"]);
        let source = |namespace: &str| match namespace {
            "blue" => script([raw("blue", "a", 1)], Vec::new()),
            _ => script(
                [raw("blue", "a", 2)],
                [EventType::Added, EventType::Modified, EventType::Deleted]
                    .into_iter()
                    .map(|kind| RawEvent { kind, object: raw("blue", "a", 6).into() })
                    .collect(),
            ),
        };
        let informer = choose(Informer::in_namespaces(&namespaces, source))
            .reflector(|reflector| reflector.watch_list(false))
            .on_error(move |error| {
                if let InformerError::Namespace {
                    namespace,
                    error: ReflectorError::Refused(error),
                } = error
                {
                    reports.send(format!("{namespace}: {error}")).unwrap();
                }
            })
            .build()
            .unwrap();
        run(&informer);
        // A deletion that is refused is tried again by its key.
        for _ in 0..5 {
            let error = timeout(LONG, reported.recv()).await.expect("it is reported").unwrap();
            assert!(error.starts_with("green: key \"blue/a\""), "{error}");
        }
        wait_for_stored(&informer, &["blue/a=1"]).await;
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nameless_object_of_another_namespace_is_refused_and_the_list_is_used() {
    for choose in QUEUES {
        for metadata in [json!({ "namespace": "green" }), json!({}), json!({ "name": "b" })] {
            let namespaces = of(["blue"]);
            let source = move |_: &str| {
                let page = PageMeta { resource_version: "5".to_owned(), ..PageMeta::default() };
                let bad = json!({ "metadata": metadata }).to_string();
                let items = vec![raw("blue", "a", 1).into(), bad.into()];
                Scripted::new()
                    .list([Ok(Listed::Meta(page)), Ok(Listed::Items(items))])
                    .watch_on([])
            };
            let (reports, mut reported) = mpsc::unbounded_channel();
            let informer = choose(Informer::in_namespaces(&namespaces, source))
                .reflector(|reflector| reflector.watch_list(false))
                .on_error(move |error| reports.send(error.to_string()).unwrap())
                .build()
                .unwrap();
            run(&informer);
            timeout(LONG, informer.wait_for_sync()).await.expect("the list is used").unwrap();
            assert_eq!(stored(&informer), ["blue/a=1"]);
            // The list may be handled before its errors are reported.
            timeout(LONG, reported.recv()).await.expect("it is reported").unwrap();
            informer.stop().await;
        }
    }
}
