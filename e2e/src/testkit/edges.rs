//! Requests at the edges of what operators send: metadata of other types, long and generated names,
//! pages, encoded paths, and invalid options.

use http::Method;
use serde_json::{Value, json};

use super::recorded::{MAPS, PODS, map, map_with};
use super::scales::{GADGETS, definitions, gadget, refused_scales_of_gadgets, scale_of_gadgets};
use super::step::{APPLY, MERGE, OPERATIONS, STRATEGIC, Step};

const EVENTS: &str = "/api/v1/namespaces/e2e/events";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/e2e/roles";
const PAST: &str = "2020-01-01T00:00:00Z";

/// Returns the requests of each part, which depends on no other part.
pub fn parts() -> Vec<Vec<Step>> {
    vec![
        types(),
        applied_metadata(),
        managers(),
        names(),
        generated_names(),
        scale_of_gadgets(),
        refused_scales_of_gadgets(),
        definitions(),
        deletion_with_finalizers(),
        preconditions(),
        missing_objects(),
        watches(),
        pages(),
        deletion_in_pages(),
        paths(),
        methods(),
        options(),
        kinds(),
    ]
}

fn owner(field: &str, value: Value) -> Value {
    let mut owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u" });
    owner[field] = value;
    json!([owner])
}

/// Returns writes in all formats of metadata of other types, and of nulls.
fn types() -> Vec<Step> {
    let fields = [
        ("labels", json!("x")),
        ("labels", json!([])),
        ("labels", json!({ "a": 1 })),
        ("labels", json!({ "a b": {} })),
        ("labels", json!({ "a": null })),
        ("annotations", json!([])),
        ("annotations", json!({ "a": true })),
        ("ownerReferences", json!({})),
        ("ownerReferences", json!(["x"])),
        ("ownerReferences", owner("name", json!(1))),
        ("ownerReferences", owner("controller", json!("x"))),
        ("finalizers", json!("x")),
        ("finalizers", json!({})),
        ("finalizers", json!([1])),
        ("finalizers", json!([null])),
        ("managedFields", json!("x")),
        ("managedFields", json!({})),
        ("managedFields", json!(["x"])),
        ("managedFields", json!([{ "manager": 1 }])),
        ("managedFields", json!([{ "time": "x" }])),
        ("generation", json!("x")),
        ("generation", json!(1.5)),
        ("deletionGracePeriodSeconds", json!("x")),
        ("generateName", json!(1)),
        ("deletionTimestamp", json!("today")),
        ("deletionTimestamp", json!(1)),
        ("deletionTimestamp", json!(null)),
        ("creationTimestamp", json!("today")),
        ("creationTimestamp", json!("")),
        ("selfLink", json!(1)),
        ("uid", json!(1)),
        ("resourceVersion", json!(1)),
        ("namespace", json!(1)),
    ];
    fields.into_iter().flat_map(|(field, value)| writes_of(field, &value)).collect()
}

/// Returns writes of a metadata field in all formats.
fn writes_of(field: &str, value: &Value) -> Vec<Step> {
    let (one, new) = (format!("{MAPS}/typed"), format!("{MAPS}/new"));
    let set = json!({ "metadata": { field: value } });
    let operations = json!([{ "op": "add", "path": format!("/metadata/{field}"), "value": value }]);
    let with = |name: &str| map_with(name, field, value.clone());
    let apply = |path: &str, name: &str| {
        Step::patch(format!("{path}?fieldManager=x&force=true"), APPLY, &with(name))
    };
    let steps = vec![
        Step::post(MAPS, &with("new")),
        Step::delete(&new, &Value::Null),
        Step::post(MAPS, &map("typed", &json!({ "k": "1" }))),
        Step::put(&one, &with("typed")),
        Step::patch(&one, MERGE, &set),
        Step::patch(&one, STRATEGIC, &set),
        Step::patch(&one, OPERATIONS, &operations),
        apply(&one, "typed"),
        apply(&new, "new"),
        Step::delete(&new, &Value::Null),
        Step::delete(&one, &Value::Null),
    ];
    steps.into_iter().map(Step::reason).collect()
}

/// Returns applied configurations with metadata that only the server sets.
fn applied_metadata() -> Vec<Step> {
    let one = format!("{MAPS}/applied");
    let mut steps = vec![Step::post(MAPS, &map("applied", &json!({ "k": "1" })))];
    let apply = |name: &str, field: &str, value: Value| {
        let path = format!("{MAPS}/{name}?fieldManager=x&force=true");
        Step::patch(path, APPLY, &map_with(name, field, value))
    };
    for (field, value) in [
        ("managedFields", json!(null)),
        ("managedFields", json!([])),
        ("managedFields", json!([{}])),
        ("managedFields", json!([null])),
        ("managedFields", json!([null, {}])),
        ("managedFields", json!([{ "other": 1 }])),
        ("uid", json!("other")),
        ("uid", json!("")),
        ("generation", json!(9)),
        ("creationTimestamp", json!(PAST)),
        ("resourceVersion", json!("1")),
        ("resourceVersion", json!("0")),
        ("generateName", json!("x")),
        ("selfLink", json!("/x")),
        ("other", json!(null)),
        ("other", json!(1)),
        ("namespace", json!("other")),
        ("namespace", json!("")),
        ("labels", json!(null)),
    ] {
        steps.push(apply("applied", field, value.clone()));
        steps.push(apply("new", field, value));
        steps.push(Step::delete(format!("{MAPS}/new"), &Value::Null));
    }
    // The real server stores these fields of a new object, and the test kit does not.
    for (field, value) in [
        ("deletionTimestamp", json!(PAST)),
        ("deletionGracePeriodSeconds", json!(5)),
        ("deletionGracePeriodSeconds", json!(0)),
    ] {
        steps.push(apply("applied", field, value));
    }
    steps.extend([
        apply("applied", "ownerReferences", owner("other", json!(1))).reason(),
        apply("applied", "name", json!(1)).reason(),
        apply("new", "name", json!(1)).reason(),
        apply("applied", "name", json!("new")),
        apply("new", "name", json!("other")),
        Step::get(&one),
        Step::delete(&one, &Value::Null),
    ]);
    let apply_gadget = |field: &str, value: Value| {
        let mut gadget = gadget("applied", &json!({ "colour": "red" }));
        gadget["metadata"][field] = value;
        Step::apply(&format!("{GADGETS}/applied"), "x", &gadget)
    };
    steps.extend([
        apply_gadget("other", json!(1)),
        apply_gadget("ownerReferences", owner("other", json!(1))).reason(),
        apply_gadget("managedFields", json!([])),
        apply_gadget("selfLink", json!("/x")),
        Step::delete(format!("{GADGETS}/applied"), &Value::Null),
    ]);
    steps
}

/// Returns writes with managers of fields, and with metadata that Kubernetes does not have.
fn managers() -> Vec<Step> {
    let one = format!("{MAPS}/managed");
    let entry = |fields: Value| {
        json!([{
            "manager": "m", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        }])
    };
    let mut steps = Vec::new();
    for (field, value) in [
        ("selfLink", json!("/x")),
        ("other", json!(1)),
        ("ownerReferences", owner("other", json!(1))),
        ("managedFields", json!([{}])),
        ("managedFields", json!([{ "manager": "x" }])),
        ("managedFields", entry(json!({ "f:data": { "f:k": {} } }))),
        ("managedFields", entry(json!({ "f:data": {} }))),
        ("managedFields", entry(json!(1))),
        ("managedFields", entry(json!({ "x": {} }))),
    ] {
        steps.extend([
            Step::post(MAPS, &map_with("managed", field, value.clone())),
            Step::put(&one, &map_with("managed", field, value.clone())),
            Step::patch(&one, MERGE, &json!({ "metadata": { field: value } })),
            Step::get(&one),
            Step::delete(&one, &Value::Null),
        ]);
    }
    steps
}

/// Returns objects with long names, and with names that need not be those of a subdomain.
fn names() -> Vec<Step> {
    let (longest, longer, upper) = ("a".repeat(253), "a".repeat(254), "A".repeat(300));
    let mut steps = Vec::new();
    for name in [&longest, &longer, &upper, "A_b", "a:b", "a%b", "..", ".", "a/b"] {
        let event = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": { "name": name, "namespace": "e2e" },
            "involvedObject": { "namespace": "e2e", "kind": "Pod", "name": "x" },
        });
        steps.extend([
            Step::post(MAPS, &map(name, &json!({}))).reason(),
            Step::post(EVENTS, &event).reason(),
            Step::post(ROLES, &json!({ "metadata": { "name": name } })).reason(),
        ]);
    }
    for name in [&longest, &longer, &upper, "A_b", "a:b"] {
        let paths = [MAPS, EVENTS, ROLES].map(|all| format!("{all}/{name}"));
        steps.extend(paths.map(|path| Step::delete(path, &Value::Null)));
    }
    steps
}

/// Returns objects with generated names, which differ.
fn generated_names() -> Vec<Step> {
    let prefixes = ["a-", "a", "UPPER-", "a_", "a.", "a/", "-", "", "a-b--"];
    let long = ["a".repeat(100), format!("{}.", "a".repeat(60))];
    let all = prefixes.into_iter().chain(long.iter().map(String::as_str));
    let named = |metadata: Value| {
        Step::post(MAPS, &json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata }))
    };
    let mut steps: Vec<Step> =
        all.map(|prefix| named(json!({ "generateName": prefix })).reason()).collect();
    steps.extend([
        named(json!({ "generateName": "a-", "labels": { "a b": "c" } })).reason(),
        named(json!({ "generateName": "A-", "name": "named" })).reason(),
        named(json!({ "generateName": "a-", "name": "named" })),
        Step::delete(format!("{MAPS}/named"), &Value::Null),
        Step::delete(MAPS, &Value::Null).reason(),
    ]);
    steps
}

/// Returns changes of the finalizers of an object that is being deleted in the foreground.
fn deletion_with_finalizers() -> Vec<Step> {
    let one = format!("{MAPS}/foreground");
    let held = |name: &str| map_with("foreground", "finalizers", json!([name]));
    let set =
        |list: Value| Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": list } }));
    let operation = |op: &str, at: usize, value: Value| json!({ "op": op, "path": format!("/metadata/finalizers/{at}"), "value": value });
    let remove_tested = |name: &str| {
        Step::patch(
            &one,
            OPERATIONS,
            &json!([operation("test", 0, json!(name)), operation("remove", 0, Value::Null)]),
        )
    };
    vec![
        Step::post(MAPS, &held("example.com/x")),
        Step::delete(&one, &json!({ "propagationPolicy": "Foreground" })),
        set(json!(["foregroundDeletion"])),
        set(json!(["foregroundDeletion", "example.com/x"])),
        remove_tested("other").reason(),
        Step::patch(&one, OPERATIONS, &json!([operation("remove", 3, Value::Null)])).reason(),
        Step::apply(&one, "x", &held("example.com/y")),
        Step::delete(&one, &json!({ "propagationPolicy": "Background" })),
        Step::get(&one),
        set(json!(null)),
        Step::get(&one),
        Step::post(MAPS, &held("foregroundDeletion")),
        Step::delete(&one, &json!({ "propagationPolicy": "Foreground" })),
        remove_tested("foregroundDeletion"),
        Step::get(&one),
    ]
}

/// Returns deletions with preconditions in the query, and with options of another kind.
fn preconditions() -> Vec<Step> {
    let one = format!("{MAPS}/u");
    let all = format!("{MAPS}?labelSelector=app%3Dprecondition");
    let made = || Step::post(MAPS, &map_with("u", "labels", json!({ "app": "precondition" })));
    vec![
        made().named("u"),
        Step::delete(format!("{one}?uid=x"), &Value::Null),
        Step::delete(format!("{one}?resourceVersion=1"), &Value::Null),
        Step::delete(format!("{all}&uid=x"), &Value::Null),
        Step::delete(&one, &json!({ "kind": "ConfigMap", "apiVersion": "v1" })).reason(),
        Step::delete(&one, &json!({ "kind": "Other", "apiVersion": "v1" })).reason(),
        Step::delete(&all, &json!({ "kind": "Other" })).reason(),
        Step::delete(&one, &json!({ "gracePeriodSeconds": "x" })).reason(),
        Step::delete(format!("{one}?uid=${{u.uid}}&resourceVersion=${{u.version}}"), &Value::Null),
        made(),
        Step::delete(format!("{one}?uid="), &Value::Null),
        made(),
        Step::delete(
            format!("{one}?uid=x"),
            &json!({ "kind": "DeleteOptions", "apiVersion": "v1" }),
        ),
    ]
}

/// Returns reads and writes of objects that do not exist, and of their status.
fn missing_objects() -> Vec<Step> {
    let deployments = "/apis/apps/v1/namespaces/e2e/deployments";
    let mut steps = Vec::new();
    for all in [deployments, GADGETS, MAPS] {
        for path in [format!("{all}/no/status"), format!("{all}/no")] {
            steps.extend([
                Step::get(&path),
                Step::patch(&path, MERGE, &json!({ "status": {} })),
                Step::patch(&path, OPERATIONS, &json!([])),
                Step::patch(&path, STRATEGIC, &json!({ "status": {} })),
                Step::delete(&path, &Value::Null),
            ]);
        }
    }
    let mut other = map("no", &json!({}));
    other["metadata"]["namespace"] = "other".into();
    steps.extend([
        Step::apply(&format!("{GADGETS}/no/status"), "x", &gadget("no", &json!({}))),
        Step::put(format!("{MAPS}/no"), &map("other", &json!({}))),
        Step::put(format!("{MAPS}/no"), &other),
        Step::put(format!("{MAPS}/no"), &map_with("no", "uid", "x".into())).reason(),
        Step::put(format!("{MAPS}/no"), &map_with("no", "resourceVersion", "5".into())).reason(),
        Step::put(format!("{GADGETS}/no"), &gadget("other", &json!({}))),
        Step::put("/api/v1/namespaces/e2e/finalize", &json!({ "metadata": { "name": "other" } })),
        Step::delete(format!("{MAPS}/No"), &Value::Null),
        Step::put(format!("{MAPS}/No"), &map("No", &json!({}))).reason(),
        Step::apply(&format!("{MAPS}/No"), "x", &map("No", &json!({}))).reason(),
    ]);
    steps
}

/// Returns watches with selectors and versions.
fn watches() -> Vec<Step> {
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

fn pages() -> Vec<Step> {
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

fn deletion_in_pages() -> Vec<Step> {
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

/// Returns encoded paths, and paths with a slash at the end.
fn paths() -> Vec<Step> {
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

fn methods() -> Vec<Step> {
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

fn options() -> Vec<Step> {
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

/// Returns custom resources without their kind.
fn kinds() -> Vec<Step> {
    let one = format!("{GADGETS}/k");
    let version = "scale.example.com/v1";
    let mut steps = Vec::new();
    for (kind, api_version) in [
        (Value::Null, Value::Null),
        ("Gadget".into(), Value::Null),
        ("Gadget".into(), "".into()),
        ("Gadget".into(), "scale.example.com/v2".into()),
        (Value::Null, version.into()),
        ("".into(), version.into()),
    ] {
        let mut body = gadget("k", &json!({ "colour": "red" }));
        (body["kind"], body["apiVersion"]) = (kind, api_version);
        steps.extend([
            Step::post(GADGETS, &body).reason(),
            Step::put(&one, &body).reason(),
            Step::apply(&one, "x", &body).reason(),
        ]);
    }
    steps
}
