//! Watches, and lists and deletions in pages.

use serde_json::{Value, json};

use crate::testkit::recorded::{MAPS, map_with};
use crate::testkit::step::{MERGE, Step};

/// Returns watches with selectors and versions.
pub fn watches() -> Vec<Step> {
    let one = format!("{MAPS}/watched");
    let watch = |query: &str| Step::get(format!("{MAPS}?watch=1&timeoutSeconds=1{query}"));
    vec![
        Step::post(MAPS, &map_with("watched", "labels", json!({ "l": "1" }))).named("watched"),
        Step::patch(&one, MERGE, &json!({ "data": { "z": "1" } })),
        Step::patch(&one, MERGE, &json!({ "metadata": { "labels": { "l": "2" } } })),
        watch("&fieldSelector=metadata.name%3Dwatched"),
        watch("&fieldSelector=metadata.name%3Dwatched&resourceVersion=${watched.version}"),
        watch("&labelSelector=l%3D1&resourceVersion=${watched.version}"),
        watch("&labelSelector=l%3D2&resourceVersion=${watched.version}"),
        Step::get(format!("{one}?watch=1&timeoutSeconds=1")),
        watch("&resourceVersion=abc").reason(),
        watch("&resourceVersion=-1").reason(),
        Step::get(format!("{one}?resourceVersion=abc")).reason(),
        Step::delete(&one, &Value::Null),
    ]
}

/// Returns objects for pages.
fn paged() -> Vec<Step> {
    let map = |name: &str| Step::post(MAPS, &map_with(name, "labels", json!({ "app": "page" })));
    ["pg-a", "pg-b", "pg-c", "pg-d", "pg-e"].map(map).into()
}

pub fn pages() -> Vec<Step> {
    let page = |query: &str| Step::get(format!("{MAPS}?labelSelector=app%3Dpage{query}"));
    let token = "&continue=${p.continue}";
    let mut steps = paged();
    steps.extend([
        page("&limit=2").named("p"),
        page(&format!("&limit=2{token}")).named("q"),
        page("&limit=2&continue=${q.continue}"),
        page(token),
        Step::delete(format!("{MAPS}/pg-d"), &Value::Null),
        page(&format!("&limit=2{token}")),
        page("&limit=-1"),
        page("&limit=2&resourceVersion=0"),
        page(&format!("&limit=2{token}&resourceVersion=0")),
        page(&format!("&limit=2{token}&resourceVersion=1&resourceVersionMatch=NotOlderThan")),
        page("&limit=2&continue=x${p.continue}").reason(),
        Step::get(format!("/api/v1/configmaps?labelSelector=app%3Dpage&limit=1{token}")).reason(),
        Step::delete(format!("{MAPS}?labelSelector=app%3Dpage"), &Value::Null),
    ]);
    steps
}

pub fn deletion_in_pages() -> Vec<Step> {
    let all = format!("{MAPS}?labelSelector=app%3Dpage");
    let mut steps = paged();
    steps.extend([
        Step::delete(format!("{all}&limit=2&dryRun=All"), &Value::Null),
        Step::get(&all),
        Step::delete(format!("{all}&limit=2"), &Value::Null),
        Step::get(&all),
        Step::delete(&all, &Value::Null),
    ]);
    steps.extend(paged());
    steps.extend([
        Step::get(format!("{all}&limit=2")).named("p"),
        Step::delete(format!("{all}&limit=2&continue=${{p.continue}}"), &Value::Null),
        Step::get(&all),
        Step::delete(&all, &json!({ "propagationPolicy": "Foreground" })),
        Step::get(&all),
    ]);
    let unset = json!({ "metadata": { "finalizers": null } });
    for name in ["pg-a", "pg-b", "pg-c", "pg-d", "pg-e"] {
        steps.push(Step::patch(format!("{MAPS}/{name}"), MERGE, &unset));
    }
    steps.push(Step::get(&all));
    steps
}
