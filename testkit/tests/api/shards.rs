//! Tests of lists and watches with `shardSelector`.

use deltafifo_testkit::{ApiServer, Resource, ShardSelectors};
use form_urlencoded::byte_serialize;
use serde_json::{Value, json};

use crate::common::{METADATA, PODS, builder, list, listed, open, open_metadata, pod, refused};

/// The namespaces `shop`, `kube-system` and `default` in the order of their hashes, which begin
/// with 46, df and eb.
const NAMESPACES: [&str; 3] = ["shop", "kube-system", "default"];
const LOWER: [&str; 2] = ["0x0000000000000000", "0x8000000000000000"];
const UPPER: [&str; 2] = ["0x8000000000000000", "0x10000000000000000"];

fn range(field: &str, [from, to]: [&str; 2]) -> String {
    format!("shardRange(object.metadata.{field},'{from}','{to}')")
}

/// Returns the path of a list of pods with this selector, and with `more` parameters.
fn selecting(selector: &str, more: &str) -> String {
    let selector: String = byte_serialize(selector.as_bytes()).collect();
    format!("{PODS}?shardSelector={selector}{more}")
}

fn server(shard_selectors: ShardSelectors) -> ApiServer {
    builder().shard_selectors(shard_selectors).build()
}

/// Returns a server with one pod in each namespace. Each pod has the name of its namespace.
fn server_with_namespaces(shard_selectors: ShardSelectors) -> ApiServer {
    let server = server(shard_selectors);
    for namespace in NAMESPACES {
        apply(&server, namespace);
    }
    server
}

fn apply(server: &ApiServer, namespace: &str) {
    let metadata = json!({ "name": namespace, "namespace": namespace });
    server.apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata })).unwrap();
}

fn selector_of(list: &Value) -> &Value {
    &list["metadata"]["shardInfo"]["selector"]
}

#[tokio::test]
async fn honoured_selector_selects_by_the_hash_of_the_namespace() {
    let server = server_with_namespaces(ShardSelectors::Honoured);
    let (lower, upper) = (range("namespace", LOWER), range("namespace", UPPER));
    let system = range("namespace", ["0xdf00000000000000", "0xe000000000000000"]);
    for (selector, expected) in [
        (lower.clone(), vec!["shop"]),
        (upper.clone(), vec!["default", "kube-system"]),
        (system.clone(), vec!["kube-system"]),
        (format!("{lower} || {system}"), vec!["kube-system", "shop"]),
        (format!("{upper}||{lower}"), vec!["default", "kube-system", "shop"]),
    ] {
        let found = list(&server, &selecting(&selector, "")).await;
        assert_eq!(listed(&found), expected, "{selector}");
    }
}

#[tokio::test]
async fn ranges_of_uids_divide_the_objects() {
    let server = server(ShardSelectors::Honoured);
    server.generate(&Resource::pods(), 1_000, |_| json!({})).unwrap();
    let mut all = Vec::new();
    for digit in 0..16 {
        let (from, to) = (format!("0x{digit:x}000000000000000"), format!("0x{:x}", digit + 1));
        let to = format!("{to}000000000000000");
        let found = list(&server, &selecting(&range("uid", [&from, &to]), "")).await;
        let names: Vec<String> = listed(&found).into_iter().map(str::to_owned).collect();
        assert!((30..100).contains(&names.len()), "{} in {from}", names.len());
        all.extend(names);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 1_000);
}

#[tokio::test]
async fn list_says_which_selector_it_honours() {
    let server = server_with_namespaces(ShardSelectors::Honoured);
    let selector = format!(" shardRange ( object.metadata.uid ,\"{}\",'{}' ) ", LOWER[0], LOWER[1]);
    let found = list(&server, &selecting(&selector, "")).await;
    assert_eq!(
        selector_of(&found),
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
    );
    assert_eq!(selector_of(&list(&server, PODS).await), &Value::Null);

    let metadata = open_metadata(&server, &selecting(&selector, "")).await;
    assert_eq!(selector_of(&metadata.json().await), &Value::Null, "{METADATA}");
}

#[tokio::test]
async fn page_of_a_list_with_a_selector_has_no_count_of_the_rest() {
    let server = server_with_namespaces(ShardSelectors::Honoured);
    let upper = range("namespace", UPPER);
    let page = list(&server, &selecting(&upper, "&limit=1")).await;
    assert_eq!((listed(&page), selector_of(&page).is_string()), (vec!["default"], true));
    assert_eq!(page["metadata"]["remainingItemCount"], Value::Null);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let token: String = byte_serialize(token.as_bytes()).collect();
    let rest = list(&server, &selecting(&upper, &format!("&limit=1&continue={token}"))).await;
    assert_eq!(listed(&rest), ["kube-system"]);
    assert_eq!(rest["metadata"]["continue"], Value::Null);
}

#[tokio::test]
async fn watch_that_honours_a_selector_has_events_of_selected_objects_only() {
    let server = server_with_namespaces(ShardSelectors::Honoured);
    let upper = range("namespace", UPPER);
    let mut watch = open(&server, &selecting(&upper, "&watch=true")).await;
    watch.events(["ADDED default 4", "ADDED kube-system 3"]).await;
    for namespace in NAMESPACES {
        server.delete(&Resource::pods(), namespace, namespace).unwrap();
    }
    watch.events(["DELETED kube-system 6", "DELETED default 7"]).await;
    watch.silent();
}

#[tokio::test]
async fn ignored_selector_changes_nothing_even_if_it_is_invalid() {
    let server = server_with_namespaces(ShardSelectors::Ignored);
    for selector in [range("namespace", LOWER).as_str(), "shardRange()"] {
        let found = list(&server, &selecting(selector, "")).await;
        assert_eq!(listed(&found).len(), 3, "{selector}");
        assert_eq!(selector_of(&found), &Value::Null, "{selector}");
    }
}

#[tokio::test]
async fn watch_ignores_a_selector_that_only_lists_honour() {
    let server = server_with_namespaces(ShardSelectors::HonouredInLists);
    let lower = range("namespace", LOWER);
    assert_eq!(listed(&list(&server, &selecting(&lower, "")).await), ["shop"]);
    let mut watch = open(&server, &selecting(&lower, "&watch=true&resourceVersion=2")).await;
    watch.events(["ADDED kube-system 3", "ADDED default 4"]).await;
    assert_eq!(refused(&server, &selecting("shardRange()", "&watch=true")).await.code, 500);
}

#[tokio::test]
async fn empty_selector_selects_everything() {
    let server = server_with_namespaces(ShardSelectors::Honoured);
    assert_eq!(listed(&list(&server, &selecting("", "")).await).len(), 3);
}

#[tokio::test]
async fn invalid_selector_is_refused_with_500() {
    let server = server(ShardSelectors::Honoured);
    server.apply(pod("a")).unwrap();
    let (uid, namespace) = (range("uid", LOWER), range("namespace", UPPER));
    let one = "0x0000000000000001";
    for invalid in [
        " ".to_owned(),
        format!("{uid} &&{uid}"),
        format!("{uid} ||"),
        format!("{uid} || {namespace}"),
        format!("other(object.metadata.uid,'{}','{}')", LOWER[0], LOWER[1]),
        format!("shardRange(object.metadata.uid,'{one}')"),
        format!("shardRange(object.metadata.uid,{},{})", LOWER[0], LOWER[1]),
        range("name", LOWER),
        range("uid", ["0x0", LOWER[1]]),
        range("uid", [LOWER[0], "0x000000000000000F"]),
        range("uid", [LOWER[0], "0x+00000000000000f"]),
        range("uid", [LOWER[0], "0x10000000000000001"]),
        range("uid", [LOWER[0], "00000000000000010"]),
        range("uid", [one, one]),
        range("uid", [LOWER[1], LOWER[0]]),
        vec![uid.as_str(); 65].join(" || "),
    ] {
        for watch in ["", "&watch=true"] {
            let status = refused(&server, &selecting(&invalid, watch)).await;
            assert_eq!(status.code, 500, "{invalid}");
            assert!(status.message.starts_with("invalid shard selector: "), "{}", status.message);
        }
    }
    let most = vec![uid.as_str(); 64].join(" || ");
    assert!(open(&server, &selecting(&most, "")).await.code.is_success());
}
