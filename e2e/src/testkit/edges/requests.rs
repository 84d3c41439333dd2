//! Encoded paths, other methods, and invalid options.

use http::Method;
use serde_json::{Value, json};

use crate::testkit::recorded::{MAPS, PODS, map};
use crate::testkit::scales::GADGETS;
use crate::testkit::step::{APPLY, MERGE, Step};

/// Returns encoded paths, and paths with a slash at the end.
pub fn paths() -> Vec<Step> {
    let mut steps = vec![Step::post(MAPS, &map("path", &json!({ "k": "1" })))];
    for path in [
        "/api/v1/namespaces/e2e/configmaps/p%61th",
        "/api/v1/namespaces/%652e/configmaps/path",
        "/api/v1/namespaces/e2e/configmaps/path/",
        "/api/v1/namespaces/e2e/configmaps%2Fpath",
        "/api/v1/namespaces/e2e/configmaps/path%2Fstatus",
        "/api/v1/namespaces/e2e/configmaps/a+b",
        "/api/v1/namespaces/e2e/configmaps/a%20b",
        "/api/v1/namespaces/e2e/configmaps/%C3%A4",
        "/api/v1/namespaces/E2E/configmaps/path",
        "/api/v1/namespaces/e2e/ConfigMaps",
        "/api/v1/configmaps/path",
        "/api/v1/namespaces/e2e/nodes",
        "/API/v1",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/e2e%3Ano",
        "/apis/apps/v1beta1/deployments",
        "/apis/nope.example.com/v1/things",
    ] {
        steps.push(Step::get(path));
    }
    steps.extend([
        Step::get("/api/v1/namespaces/e2e/").contained(),
        Step::get(format!("{PODS}/")),
        Step::get(format!("{GADGETS}/")),
        Step::delete(format!("{MAPS}/p%61th"), &Value::Null),
    ]);
    steps
}

pub fn methods() -> Vec<Step> {
    let mut steps = Vec::new();
    for method in [Method::HEAD, Method::OPTIONS, Method::TRACE] {
        for path in [MAPS, GADGETS, PODS] {
            // The real server answers HEAD for custom resources only.
            if path == GADGETS && method == Method::HEAD {
                continue;
            }
            steps.push(Step::raw(method.clone(), path, ""));
            steps.push(Step::raw(method.clone(), format!("{path}/a"), ""));
        }
        for path in ["/api", "/version", "/nope"] {
            steps.push(Step::raw(method.clone(), path, "").reason());
        }
    }
    for path in [format!("{GADGETS}/g/status"), format!("{GADGETS}/g/scale")] {
        steps.push(Step::raw(Method::POST, &path, "{}"));
        steps.push(Step::raw(Method::DELETE, &path, "{}"));
    }
    steps
}

pub fn options() -> Vec<Step> {
    let one = format!("{MAPS}/option");
    let body = map("option", &json!({ "k": "1" }));
    let (longest, longer) = ("x".repeat(128), "x".repeat(129));
    let mut steps = vec![Step::post(MAPS, &body)];
    for query in [
        format!("fieldManager={longest}"),
        format!("fieldManager={longer}"),
        "fieldManager=%01".to_owned(),
        "fieldManager=a%00".to_owned(),
        "fieldManager=a%20b".to_owned(),
        "fieldManager=%C3%A4".to_owned(),
        "fieldManager=".to_owned(),
        "fieldValidation=Other".to_owned(),
        "fieldValidation=".to_owned(),
        "fieldValidation=Warn".to_owned(),
    ] {
        let query = format!("dryRun=All&{query}");
        steps.extend([
            Step::post(format!("{MAPS}?{query}"), &map("other", &json!({}))).reason(),
            Step::put(format!("{one}?{query}"), &body).reason(),
            Step::patch(format!("{one}?{query}"), MERGE, &json!({})).reason(),
            Step::patch(format!("{one}?{query}"), APPLY, &body).reason(),
        ]);
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    steps.extend([
        Step::get(&one).accepting(&format!("{table},application/json")).reason(),
        Step::get(&one).accepting("*/*"),
        Step::delete(&one, &Value::Null),
    ]);
    steps
}
