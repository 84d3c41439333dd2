//! A check of the manifests of an example (`examples/deploy`): the rights that they grant against
//! the requests that the example makes, and what its pods may do on their node.

use std::collections::BTreeSet;

use deltafifo_testkit::{ApiServer, Request, Verb};
use serde_json::{Value, json};

/// The operation for which a request needs a right.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Use {
    /// `None` for all namespaces.
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: &'static str,
    /// The only object, if the request names it.
    name: Option<String>,
}

/// A right that a binding grants.
#[derive(Debug)]
struct Right {
    /// `None` for all namespaces.
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: String,
    /// The only objects. `None` for all of them.
    names: Option<Vec<String>>,
}

impl Right {
    fn covers(&self, used: &Use, verb: &str) -> bool {
        let has_name = |names: &Vec<String>| used.name.as_ref().is_some_and(|n| names.contains(n));
        (self.namespace.is_none() || self.namespace == used.namespace)
            && (&self.group, &self.resource) == (&used.group, &used.resource)
            && self.verb == verb
            && self.names.as_ref().is_none_or(has_name)
    }
}

/// Checks that the account of the pods in `manifests` has the rights for the requests that `server`
/// has received, each in its namespace, and no others except lists for servers without streamed
/// lists.
pub fn check(manifests: &str, server: &ApiServer) {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("valid YAML");
    let all = |kinds: &[&str]| -> Vec<&Value> {
        let is_one = |document: &&Value| kinds.iter().any(|kind| document["kind"] == *kind);
        documents.iter().filter(is_one).collect()
    };
    let find = |kinds: &[&str]| *all(kinds).first().unwrap_or_else(|| panic!("no {kinds:?}"));
    let account = &find(&["ServiceAccount"])["metadata"];
    let (roles, bindings) =
        (all(&["Role", "ClusterRole"]), all(&["RoleBinding", "ClusterRoleBinding"]));
    assert_eq!(bindings.len(), roles.len());
    let mut granted = Vec::new();
    for binding in bindings {
        let role = &binding["roleRef"];
        let role = roles.iter().find(|one| {
            one["kind"] == role["kind"]
                && one["metadata"]["name"] == role["name"]
                && (one["kind"] == "ClusterRole"
                    || one["metadata"]["namespace"] == binding["metadata"]["namespace"])
        });
        let role = role.unwrap_or_else(|| panic!("{binding} refers to a role that is missing"));
        let subject = json!({
            "kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"],
        });
        assert_eq!(binding["subjects"], json!([subject]));
        let namespace =
            (binding["kind"] == "RoleBinding").then(|| text(&binding["metadata"]["namespace"]));
        granted.extend(rights(role, namespace.as_deref()));
    }

    let used: BTreeSet<Use> = server.requests().iter().map(used).collect();
    let is_missing = |one: &&Use| !granted.iter().any(|right| right.covers(one, one.verb));
    let missing: Vec<_> = used.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "not granted: {missing:?}");
    let is_spare = |right: &&Right| {
        let is_used = |one: &Use| {
            right.covers(one, one.verb) || one.verb == "watch" && right.covers(one, "list")
        };
        !used.iter().any(is_used)
    };
    let spare: Vec<_> = granted.iter().filter(is_spare).collect();
    assert!(spare.is_empty(), "granted, but not used: {spare:?}");

    let workload = find(&["Deployment", "Job"]);
    let pods = &workload["spec"]["template"]["spec"];
    assert_eq!(workload["metadata"]["namespace"], account["namespace"]);
    assert_eq!(pods["serviceAccountName"], account["name"]);
    check_hardening(pods);
}

/// Checks that the pods meet the level *restricted* of Kubernetes' pod security standards, cannot
/// write their root file system, and have bounded memory.
fn check_hardening(pods: &Value) {
    let user = &pods["securityContext"];
    assert_eq!(user["runAsNonRoot"], true);
    assert_eq!(user["seccompProfile"]["type"], "RuntimeDefault");
    for container in pods["containers"].as_array().expect("containers") {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
        let resources = &container["resources"];
        for amount in [&resources["requests"]["cpu"], &resources["limits"]["memory"]] {
            assert!(amount.is_string(), "{resources}");
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn texts(values: &Value) -> Vec<String> {
    serde_json::from_value(values.clone()).expect("a list of texts")
}

/// Returns the rights of a role in a namespace, or in all of them.
fn rights(role: &Value, namespace: Option<&str>) -> Vec<Right> {
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().expect("rules") {
        let names = rule.get("resourceNames").map(texts);
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                rights.extend(texts(&rule["verbs"]).into_iter().map(|verb| Right {
                    namespace: namespace.map(str::to_owned),
                    group: group.clone(),
                    resource: resource.clone(),
                    verb,
                    names: names.clone(),
                }));
            }
        }
    }
    rights
}

fn used(request: &Request) -> Use {
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
    let selected = || request.parameter("fieldSelector")?.strip_prefix("metadata.name=");
    Use {
        namespace: request.namespace().map(str::to_owned),
        group: group.unwrap_or_default().to_owned(),
        resource: request.plural().unwrap_or_default().to_owned(),
        verb,
        name: request.name().or_else(selected).map(str::to_owned),
    }
}
