//! Tests of lists and watches with `shardSelector`.

use deltafifo_testkit::{ApiServer, Resource, ShardSelectors};
use form_urlencoded::byte_serialize;
use kube::core::discovery::Scope;
use kube::core::{ApiResource, GroupVersionKind};
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

/// The real server ignores the selector to count the objects behind a page, and to find out whether
/// it is the last one.
#[tokio::test]
async fn page_of_a_list_with_a_selector_counts_the_objects_of_all_shards() {
    let server = server_with_namespaces(ShardSelectors::Honoured);
    let shop = range("namespace", LOWER);
    let token = |page: &Value| {
        let token = page["metadata"]["continue"].as_str().unwrap();
        byte_serialize(token.as_bytes()).collect::<String>()
    };
    let rest = |page: &Value| page["metadata"]["remainingItemCount"].clone();
    apply(&server, "team");

    // In the order of lists: default, kube-system, shop, team.
    let upper = range("namespace", UPPER);
    let page = list(&server, &selecting(&upper, "&limit=1")).await;
    assert_eq!((listed(&page), rest(&page)), (vec!["default"], json!(3)));
    assert!(selector_of(&page).is_string());
    let more = format!("&limit=1&continue={}", token(&page));
    let page = list(&server, &selecting(&upper, &more)).await;
    assert_eq!((listed(&page), rest(&page)), (vec!["kube-system"], json!(2)));

    let page = list(&server, &selecting(&shop, "&limit=1")).await;
    assert_eq!((listed(&page), rest(&page)), (vec!["shop"], json!(3)));
    let more = format!("&limit=1&continue={}", token(&page));
    let page = list(&server, &selecting(&shop, &more)).await;
    assert_eq!((listed(&page).len(), rest(&page)), (0, Value::Null));
    assert_eq!(page["metadata"]["continue"], Value::Null);

    let page = list(&server, &selecting(&shop, "&limit=1&labelSelector=!app")).await;
    assert_eq!((listed(&page), rest(&page)), (vec!["shop"], Value::Null));
}

#[tokio::test]
async fn list_of_custom_resources_does_not_say_which_selector_it_honours() {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let api = ApiResource::from_gvk_with_plural(&kind, "widgets");
    let widgets = Resource::custom(api, Scope::Namespaced);
    let server = builder().resource(widgets).shard_selectors(ShardSelectors::Honoured).build();
    for namespace in NAMESPACES {
        let metadata = json!({ "name": namespace, "namespace": namespace });
        let kind =
            json!({ "kind": "Widget", "apiVersion": "example.com/v1", "metadata": metadata });
        server.apply(kind).unwrap();
    }
    let path =
        selecting(&range("namespace", LOWER), "").replace(PODS, "/apis/example.com/v1/widgets");
    let found = list(&server, &path).await;
    assert_eq!((listed(&found), selector_of(&found)), (vec!["shop"], &Value::Null));
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
async fn watch_ignores_a_selector_that_only_lists_honour_unless_it_selects_by_labels() {
    let server = server_with_namespaces(ShardSelectors::HonouredInLists);
    let lower = range("namespace", LOWER);
    assert_eq!(listed(&list(&server, &selecting(&lower, "")).await), ["shop"]);
    let mut watch = open(&server, &selecting(&lower, "&watch=true&resourceVersion=2")).await;
    watch.events(["ADDED kube-system 3", "ADDED default 4"]).await;
    let labels = "&watch=true&resourceVersion=1&labelSelector=!app";
    let mut watch = open(&server, &selecting(&lower, labels)).await;
    watch.events(["ADDED shop 2"]).await;
    watch.silent();
    assert_eq!(refused(&server, &selecting("shardRange()", "&watch=true")).await.code, 500);
}

#[tokio::test]
async fn empty_selector_selects_everything() {
    let server = server_with_namespaces(ShardSelectors::Honoured);
    assert_eq!(listed(&list(&server, &selecting("", "")).await).len(), 3);
}

/// The messages are those of Kubernetes 1.36.
#[tokio::test]
async fn invalid_selector_is_refused_with_500_and_the_message_of_the_real_server() {
    let server = server(ShardSelectors::Honoured);
    server.apply(pod("a")).unwrap();
    let arguments = |arguments: &str| format!("shardRange({arguments})");
    let [start, middle] = LOWER;
    let uid = |from: &str, to: &str| range("uid", [from, to]);
    let (half, other) = (range("uid", LOWER), range("namespace", UPPER));
    let unsupported = |field: &str| {
        format!(
            "unsupported field path {field:?}; supported: object.metadata.uid, \
             object.metadata.namespace"
        )
    };
    for (invalid, why) in [
        (
            " ".to_owned(),
            "empty shard selector is not allowed; omit the parameter for unfiltered lists"
                .to_owned(),
        ),
        (arguments(""), "shardRange() requires exactly 3 arguments, got 0".to_owned()),
        (
            arguments(&format!("object.metadata.uid,'{middle}'")),
            "shardRange() requires exactly 3 arguments, got 2".to_owned(),
        ),
        (arguments(&format!("metadata.uid,'{start}','{middle}'")), unsupported("metadata.uid")),
        (range("name", LOWER), unsupported("object.metadata.name")),
        (
            arguments(&format!("'object.metadata.uid','{start}','{middle}'")),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got \
             expression kind 5"
                .to_owned(),
        ),
        (
            arguments(&format!("object.metadata.uid,'{start}',x")),
            "hexEnd must be a string literal (e.g. '0xff'), got expression kind 3".to_owned(),
        ),
        (
            half.replace("shardRange", "other"),
            "unsupported function \"other\"; only shardRange() and || are allowed".to_owned(),
        ),
        (
            format!("{half} || {other}"),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \
             \"object.metadata.namespace\""
                .to_owned(),
        ),
        (
            uid("0x0", middle),
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \
             \"0x0000000000000000\"?)"
                .to_owned(),
        ),
        (
            uid(start, "0x000000000000000F"),
            "hexEnd: invalid hex character \"F\" in \"0x000000000000000F\"".to_owned(),
        ),
        (
            uid(start, "0x10000000000000001"),
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \
             \"0x10000000000000001\""
                .to_owned(),
        ),
        (
            uid(start, "0x100000000000000000"),
            "hexEnd: hex value too long (18 chars, max 17): \"100000000000000000\"".to_owned(),
        ),
        (
            uid(start, "00000000000000010"),
            "hexEnd must have '0x' prefix, got \"00000000000000010\"".to_owned(),
        ),
        (uid("0x", middle), "hexStart: hex value is required after '0x'".to_owned()),
        (uid(middle, middle), format!("shard range start {middle} must be less than end {middle}")),
        (
            uid(UPPER[1], start),
            format!("shard range start {} must be less than end {start}", UPPER[1]),
        ),
    ] {
        for watch in ["", "&watch=true"] {
            let status = refused(&server, &selecting(&invalid, watch)).await;
            assert_eq!(status.code, 500, "{invalid}");
            assert_eq!(status.message, format!("invalid shard selector: {why}"), "{invalid}");
        }
    }
    // The parser of the real server makes the rest of these messages.
    for invalid in [format!("{half} ||"), format!("{half} {half}"), half.replace(')', "")] {
        let status = refused(&server, &selecting(&invalid, "")).await;
        assert_eq!(status.code, 500, "{invalid}");
        let syntax = "invalid shard selector: CEL parse error: ";
        assert!(status.message.starts_with(syntax), "{}", status.message);
    }
    let many = vec![half.as_str(); 100].join(" || ");
    assert!(open(&server, &selecting(&many, "")).await.code.is_success());
}

#[tokio::test]
async fn invalid_selector_is_refused_after_other_parameters_and_before_the_version_and_the_token() {
    let server = server(ShardSelectors::Honoured);
    for (more, code) in [
        ("&resourceVersion=abc", 500),
        ("&continue=zzz", 500),
        ("&limit=abc", 400),
        ("&timeoutSeconds=abc", 400),
        ("&labelSelector=%3D%3D", 400),
        ("&fieldSelector=nope%3D1", 400),
        ("&resourceVersionMatch=Foo", 422),
    ] {
        assert_eq!(refused(&server, &selecting("shardRange()", more)).await.code, code, "{more}");
    }
    server.apply(pod("a")).unwrap();
    let one = selecting("shardRange()", "").replace("/pods?", "/namespaces/default/pods/a?");
    assert!(open(&server, &one).await.code.is_success(), "a read ignores the selector");
}
