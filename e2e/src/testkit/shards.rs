//! Lists and watches with `shardSelector` (KEP-5866). A server without the feature
//! `ShardedListAndWatch` ignores the parameter.

use form_urlencoded::byte_serialize;
use serde_json::{Value, json};

use super::recorded::{MAPS, WIDGETS, map, map_with};
use super::step::Step;

/// The namespaces of the objects. The hash of the first begins with 0, and that of the other with
/// f.
const LOWER: &str = "north";
const UPPER: &str = "team";
/// The start of all hashes, their middle, and their end.
const START: &str = "0x0000000000000000";
const MIDDLE: &str = "0x8000000000000000";
const END: &str = "0x10000000000000000";
/// The end of the first sixteenth, and the start of the last one.
const FIRST: &str = "0x1000000000000000";
const LAST: &str = "0xf000000000000000";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn range(field: &str, from: &str, to: &str) -> String {
    format!("shardRange(object.metadata.{field},'{from}','{to}')")
}

/// Returns the first and the last sixteenth of the hashes of namespaces.
fn sixteenths() -> [String; 2] {
    [range("namespace", START, FIRST), range("namespace", LAST, END)]
}

/// Returns a list or watch of `path` with this selector, and with `more` parameters.
fn selecting(path: &str, selector: &str, more: &str) -> Step {
    let encoded: String = byte_serialize(selector.as_bytes()).collect();
    Step::get(format!("{path}?shardSelector={encoded}{more}"))
}

/// Returns the path of a resource in a namespace.
fn path(namespace: &str, plural: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}")
}

/// Returns the requests to a server that ignores selectors.
pub fn ignored() -> Vec<Step> {
    let [lower, upper] = sixteenths();
    let mut steps = objects();
    for namespace in [LOWER, UPPER] {
        let maps = path(namespace, "configmaps");
        for selector in [lower.as_str(), upper.as_str(), "shardRange()"] {
            for more in ["", "&limit=1"] {
                steps.push(selecting(&maps, selector, more));
            }
        }
        steps.push(selecting(&maps, &upper, "&watch=true&timeoutSeconds=1"));
    }
    steps.extend(deletions());
    steps
}

/// Returns the requests of each part to a server that honours selectors. A part depends on no other
/// part but the first.
pub fn parts() -> Vec<Vec<Step>> {
    vec![objects(), lists(), pages(), forms(), watches(), custom(), invalid(), order(), deletions()]
}

fn objects() -> Vec<Step> {
    let mut steps = Vec::new();
    for namespace in [LOWER, UPPER] {
        let metadata = json!({ "name": namespace });
        let object = json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": metadata });
        steps.push(Step::post("/api/v1/namespaces", &object).contained());
        for name in ["a", "b", "c"] {
            let labels = json!({ "app": name });
            let maps = path(namespace, "configmaps");
            steps.push(Step::post(maps, &map_with(name, "labels", labels)));
            let secret =
                json!({ "kind": "Secret", "apiVersion": "v1", "metadata": { "name": name } });
            steps.push(Step::post(path(namespace, "secrets"), &secret).contained());
        }
    }
    steps
}

fn lists() -> Vec<Step> {
    let [lower, upper] = sixteenths();
    let list = |selector: &str| selecting("/api/v1/configmaps", selector, "");
    let mut steps = vec![
        list(&lower),
        list(&upper),
        list(&format!("{lower} || {upper}")),
        list(&format!("{upper}||{lower}")),
        list(&format!(" {lower}  ||  {lower} ")),
        list(&lower.replace('\'', "\"").replace(',', " , ").replace('(', " ( ")),
        list(&vec![lower.as_str(); 100].join(" || ")),
        selecting(&path(LOWER, "configmaps"), "", ""),
        selecting("/api/v1/configmaps", &upper, "&resourceVersion=0"),
        selecting("/api/v1/configmaps", &upper, "&labelSelector=app%3Db"),
        selecting("/api/v1/configmaps", &upper, "&fieldSelector=metadata.name%3Db"),
    ];
    for namespace in [LOWER, UPPER] {
        let maps = path(namespace, "configmaps");
        steps.push(selecting(&maps, &lower, ""));
        steps.push(selecting(&maps, &range("uid", START, END), ""));
        let halves = [range("uid", START, MIDDLE), range("uid", MIDDLE, END)];
        steps.push(selecting(&maps, &halves.join(" || "), ""));
        steps.push(selecting(&format!("{maps}/a"), "shardRange()", ""));
    }
    // Namespaces have no namespace. The hash of the empty string begins with c.
    let cluster_scoped = [range("namespace", START, MIDDLE), range("namespace", LAST, END)];
    steps.push(selecting("/api/v1/namespaces", &cluster_scoped.join(" || "), ""));
    steps
}

fn pages() -> Vec<Step> {
    let [lower, upper] = sixteenths();
    let mut steps = Vec::new();
    // Secrets, of which the servers have no others.
    let secrets = "/api/v1/secrets";
    for selector in [&lower, &upper] {
        let page =
            |more: &str| selecting(secrets, selector, &format!("&limit=1{more}")).contained();
        steps.extend([
            page("").named("p"),
            page("&continue=${p.continue}").named("q"),
            page("&continue=${q.continue}").named("q"),
            page("&resourceVersion=0"),
            page("&labelSelector=app"),
            page("&labelSelector=!app"),
        ]);
        let two = |more: &str| selecting(secrets, selector, &format!("&limit=2{more}")).contained();
        steps.extend([two("").named("q"), two("&continue=${q.continue}")]);
        steps.push(selecting(secrets, selector, "&continue=${p.continue}").contained());
    }
    let maps = path(LOWER, "configmaps");
    steps.extend([
        selecting(&maps, &lower, "&limit=2").named("p"),
        selecting(&maps, &lower, "&limit=2&continue=${p.continue}"),
        selecting(&maps, &upper, "&limit=2&continue=${p.continue}"),
        selecting(&maps, &upper, "&limit=2"),
        selecting(&maps, &lower, "&limit=3"),
        Step::get(format!("{maps}?limit=1&labelSelector=app%3Da")).named("p"),
        Step::get(format!("{maps}?limit=1&labelSelector=app%3Da&continue=${{p.continue}}")),
        Step::get(format!("{maps}?limit=1&labelSelector=app%3Dc")),
    ]);
    steps
}

/// Returns lists of metadata and tables.
fn forms() -> Vec<Step> {
    let [lower, _] = sixteenths();
    let list = |path: &str, form| selecting(path, &lower, "").accepting(form);
    vec![
        list("/api/v1/configmaps", METADATA),
        list("/api/v1/configmaps", TABLE).reason(),
        list(&path(LOWER, "configmaps"), METADATA),
    ]
}

fn watches() -> Vec<Step> {
    let [lower, upper] = sixteenths();
    let maps = path(LOWER, "configmaps");
    let one = format!("{maps}/a");
    let watch = |selector: &str, more: &str| {
        let more = format!("&watch=true&timeoutSeconds=1{more}");
        selecting("/api/v1/configmaps", selector, &more)
    };
    let since = "&resourceVersion=${since.version}";
    vec![
        watch(&lower, ""),
        watch(
            &upper,
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        ),
        Step::get(&one).named("since"),
        Step::put(&one, &map("a", &json!({ "k": "1" }))),
        Step::delete(&one, &Value::Null),
        Step::post(&maps, &map("a", &json!({ "k": "2" }))),
        watch(&lower, since),
        watch(&upper, since),
        watch(&range("uid", START, END), since),
        watch(&lower, &format!("{since}&labelSelector=app%3Da")),
        watch("shardRange()", since),
    ]
}

/// Returns requests of custom resources, whose lists have no `shardInfo` in the real server.
fn custom() -> Vec<Step> {
    let widget = |name: &str| json!({ "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": name } });
    // The hash of their namespace is in the upper half.
    let (none, all) = (range("namespace", START, MIDDLE), range("namespace", MIDDLE, END));
    let mut steps = vec![Step::post(WIDGETS, &widget("a")), Step::post(WIDGETS, &widget("b"))];
    for selector in [none, all, range("uid", START, END), "shardRange()".to_owned()] {
        for more in ["", "&limit=1", "&watch=true&timeoutSeconds=1"] {
            steps.push(selecting(WIDGETS, &selector, more));
        }
    }
    steps.extend([
        Step::delete(format!("{WIDGETS}/a"), &Value::Null),
        Step::delete(format!("{WIDGETS}/b"), &Value::Null),
    ]);
    steps
}

/// Returns lists and watches with selectors that are not valid.
fn invalid() -> Vec<Step> {
    let uid = |from: &str, to: &str| range("uid", from, to);
    let half = uid(START, MIDDLE);
    let arguments = |arguments: &str| format!("shardRange({arguments})");
    let refused = [
        " ".to_owned(),
        arguments(""),
        arguments("object.metadata.uid"),
        arguments(&format!("object.metadata.uid,'{START}'")),
        arguments(&format!("object.metadata.uid,'{START}','{MIDDLE}','{END}'")),
        arguments(&format!("metadata.uid,'{START}','{MIDDLE}'")),
        arguments(&format!("uid,'{START}','{MIDDLE}'")),
        arguments(&format!("'object.metadata.uid','{START}','{MIDDLE}'")),
        arguments(&format!("object.metadata.uid,'{START}',x")),
        arguments(&format!("object.metadata.uid,x.y,'{MIDDLE}'")),
        half.replace("shardRange", "other"),
        half.replace("shardRange", "shardrange"),
        range("name", START, MIDDLE),
        range("labels.app", START, MIDDLE),
        format!("{half} || {}", range("namespace", MIDDLE, END)),
        format!("{half} || {}", range("name", MIDDLE, END)),
        uid("0x0", MIDDLE),
        uid(START, "0x800000000000000"),
        uid(START, "0x000000000000000F"),
        uid(START, "0x+00000000000000f"),
        uid(START, "0x10000000000000001"),
        uid(START, "0x100000000000000000"),
        uid(START, "00000000000000010"),
        uid("0X0000000000000000", MIDDLE),
        uid("0x", MIDDLE),
        uid("", MIDDLE),
        uid(MIDDLE, MIDDLE),
        uid(MIDDLE, START),
        uid(END, END),
    ];
    // The messages of these are those of CEL.
    let syntax = [
        format!("{half} ||"),
        format!("|| {half}"),
        format!("{half} | {half}"),
        format!("{half} {half}"),
        format!("{half};"),
        half.replace(')', ""),
        arguments(&format!("object.metadata.uid,'{START}','{MIDDLE}',")),
        arguments(&format!("object.metadata.uid,'{START},'{MIDDLE}'")),
    ];
    let maps = "/api/v1/configmaps";
    let both = |selector: &String| {
        let watch = "&watch=true&timeoutSeconds=1";
        [selecting(maps, selector, ""), selecting(maps, selector, watch)]
    };
    let syntax = syntax.iter().map(|selector| selecting(maps, selector, "").reason());
    refused.iter().flat_map(both).chain(syntax).collect()
}

/// Returns requests with several invalid parameters, of which the server names the first.
fn order() -> Vec<Step> {
    let list = |more: &str| selecting(MAPS, "shardRange()", more).reason();
    vec![
        list("&resourceVersionMatch=Foo"),
        list("&resourceVersion=abc"),
        list("&labelSelector=%3D%3D"),
        list("&fieldSelector=nope%3D1"),
        list("&limit=abc"),
        list("&timeoutSeconds=abc"),
        list("&continue=zzz"),
        list("&watch=true&timeoutSeconds=1&resourceVersion=abc"),
    ]
}

/// Returns deletions of the objects of a selector.
fn deletions() -> Vec<Step> {
    let [lower, upper] = sixteenths();
    let mut steps = Vec::new();
    for namespace in [LOWER, UPPER] {
        let maps = path(namespace, "configmaps");
        let delete = |selector: &str, more: &str| Step {
            method: http::Method::DELETE,
            ..selecting(&maps, selector, more)
        };
        steps.extend([
            delete(&upper, "&labelSelector=app%3Db"),
            Step::get(&maps),
            delete("shardRange()", ""),
            delete(&lower, ""),
            Step::get(&maps),
            delete(&format!("{lower} || {upper}"), ""),
            Step::get(&maps),
        ]);
    }
    steps
}

/// Returns requests of Events, which the real server has in no cache. It honours the selector of a
/// watch only if that has another selector, too. The first part of [`parts`] must have been sent.
pub fn events() -> Vec<Step> {
    let mut steps = Vec::new();
    for namespace in [LOWER, UPPER] {
        let involved = json!({ "kind": "Pod", "namespace": namespace, "name": "a" });
        let event = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": { "name": "e" },
            "involvedObject": involved,
        });
        steps.push(Step::post(path(namespace, "events"), &event).contained());
    }
    let [lower, _] = sixteenths();
    for more in ["", "&limit=1", "&watch=true&timeoutSeconds=1"] {
        steps.push(selecting("/api/v1/events", &lower, more).contained());
        let labels = format!("{more}&labelSelector=!app");
        steps.push(selecting("/api/v1/events", &lower, &labels).contained());
        steps.push(selecting("/api/v1/events", "shardRange()", more));
    }
    steps
}
