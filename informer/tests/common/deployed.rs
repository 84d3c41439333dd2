//! A check of the manifests of an example (`examples/deploy`) against the requests that it makes.

use std::collections::BTreeSet;

use deltafifo_testkit::{ApiServer, Request, Verb};
use serde_json::Value;

/// A right: an API group, a resource, and a verb.
type Right = (String, String, String);

/// Checks that the roles in `manifests` have the rights for the requests that `server` has
/// received, and no others except lists for servers without streamed lists, and that the account of
/// the pods has these roles.
pub fn check(manifests: &str, server: &ApiServer) {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("valid YAML");
    let all = |kinds: &[&str]| -> Vec<&Value> {
        let is_one = |document: &&Value| kinds.iter().any(|kind| document["kind"] == *kind);
        documents.iter().filter(is_one).collect()
    };
    let find = |kinds: &[&str]| *all(kinds).first().unwrap_or_else(|| panic!("no {kinds:?}"));
    let roles = all(&["Role", "ClusterRole"]);
    let granted: BTreeSet<Right> = roles.iter().flat_map(|role| granted(role)).collect();
    let used = server.requests().iter().map(right).collect();
    let missing: Vec<_> = BTreeSet::difference(&used, &granted).collect();
    assert!(missing.is_empty(), "not granted: {missing:?}");
    let is_spare = |(group, resource, verb): &&Right| {
        let watch = (group.clone(), resource.clone(), "watch".to_owned());
        !(verb == "list" && used.contains(&watch))
    };
    let spare: Vec<_> = granted.difference(&used).filter(is_spare).collect();
    assert!(spare.is_empty(), "granted, but not used: {spare:?}");

    let account = &find(&["ServiceAccount"])["metadata"];
    let pods = &find(&["Deployment", "Job"])["spec"]["template"]["spec"];
    let bindings = all(&["RoleBinding", "ClusterRoleBinding"]);
    assert_eq!(bindings.len(), roles.len());
    for (binding, role) in bindings.into_iter().zip(roles) {
        assert_eq!(binding["roleRef"]["kind"], role["kind"]);
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        assert_eq!(binding["subjects"][0]["name"], account["name"]);
        assert_eq!(binding["subjects"][0]["namespace"], account["namespace"]);
    }
    assert_eq!(pods["serviceAccountName"], account["name"]);
}

fn granted(role: &Value) -> BTreeSet<Right> {
    let texts = |values: &Value| -> Vec<String> {
        serde_json::from_value(values.clone()).expect("a list of texts")
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().expect("rules") {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let right = |verb| (group.clone(), resource.clone(), verb);
                rights.extend(texts(&rule["verbs"]).into_iter().map(right));
            }
        }
    }
    rights
}

fn right(request: &Request) -> Right {
    let group = request.path().strip_prefix("/apis/").and_then(|path| path.split('/').next());
    let verb = match request.verb() {
        Verb::List => "list",
        Verb::Watch => "watch",
        Verb::Get => "get",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::DeleteCollection => "deletecollection",
        Verb::Other => panic!("{request:?}"),
    };
    let resource = request.plural().unwrap_or_default();
    (group.unwrap_or_default().to_owned(), resource.to_owned(), verb.to_owned())
}
