//! How the fields of an object merge: which lists merge by keys or as sets, and which maps are
//! replaced as a whole.

use std::iter;

use serde_json::{Map, Value};

use crate::Resource;

/// The lists of built-in kinds that merge by keys, by their names and the keys of an element. The
/// keys are in alphabetical order.
const LISTS: &[(&str, &[&str])] = &[
    ("addresses", &["type"]),
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("hostIPs", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("podIPs", &["ip"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("secrets", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
    ("webhooks", &["name"]),
];
const CONTAINERS: [&str; 3] = ["containers", "ephemeralContainers", "initContainers"];

/// The maps of built-in kinds that are replaced as a whole.
const ATOMIC: [&str; 13] = [
    "configMapKeyRef",
    "fieldRef",
    "labelSelector",
    "namespaceSelector",
    "nodeSelector",
    "objectSelector",
    "podSelector",
    "resourceFieldRef",
    "roleRef",
    "scaleTargetRef",
    "secretKeyRef",
    "selector",
    "targetRef",
];

/// How a list merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListType<'a> {
    /// The list is replaced as a whole.
    Atomic,
    /// Elements with equal values of these keys merge.
    Keyed(Vec<&'a str>),
    /// The list is a set of values.
    Set,
}

/// A place in an object: the names of the fields from the root. The elements of a list are at the
/// place of the list.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    resource: &'a Resource,
    parent: Option<&'a Place<'a>>,
    name: &'a str,
}

impl<'a> Place<'a> {
    pub(crate) fn root(resource: &'a Resource) -> Self {
        Self { resource, parent: None, name: "" }
    }

    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Self { resource: self.resource, parent: Some(self), name }
    }

    /// Returns the names from this place up to the root, which has none.
    fn names(&self) -> impl Iterator<Item = &'a str> {
        iter::successors(Some(*self), |place| place.parent.copied())
            .map(|place| place.name)
            .filter(|name| !name.is_empty())
    }

    fn parent_name(&self) -> &'a str {
        self.parent.map_or("", |parent| parent.name)
    }

    /// Returns how the list at this place merges.
    pub(crate) fn list(&self) -> ListType<'a> {
        match (self.parent_name(), self.name) {
            ("metadata", "ownerReferences") => return ListType::Keyed(vec!["uid"]),
            ("metadata", "finalizers") => return ListType::Set,
            _ => {}
        }
        if self.resource.is_custom() {
            let path = {
                let mut names: Vec<&str> = self.names().collect();
                names.reverse();
                names.join(".")
            };
            return self.resource.keys_of(&path).map_or(ListType::Atomic, |keys| {
                ListType::Keyed(keys.iter().map(String::as_str).collect())
            });
        }
        match (self.parent_name(), self.name) {
            (parent, "ports") if CONTAINERS.contains(&parent) => {
                ListType::Keyed(vec!["containerPort", "protocol"])
            }
            ("spec", "ports") if self.resource.kind() == "Service" => {
                ListType::Keyed(vec!["port", "protocol"])
            }
            (_, name) => LISTS
                .iter()
                .find(|(known, _)| *known == name)
                .map_or(ListType::Atomic, |(_, keys)| ListType::Keyed(keys.to_vec())),
        }
    }

    /// Returns whether the map at this place is replaced as a whole.
    pub(crate) fn is_atomic_map(&self) -> bool {
        (self.parent_name() == "metadata" && self.name == "ownerReferences")
            || (!self.resource.is_custom() && ATOMIC.contains(&self.name))
    }

    /// Returns the elements of the list at this place with their names in a
    /// [`FieldSet`](super::fields::FieldSet), or `None` if the list is replaced as a whole, has an
    /// element without keys, or has two elements with equal keys.
    pub(crate) fn elements<'v>(&self, list: &'v [Value]) -> Option<Vec<(String, &'v Value)>> {
        let kind = self.list();
        let mut elements: Vec<(String, &Value)> = Vec::with_capacity(list.len());
        for element in list {
            let name = match &kind {
                ListType::Atomic => return None,
                ListType::Set => format!("v:{element}"),
                ListType::Keyed(keys) => name_of(element.as_object()?, keys)?,
            };
            if elements.iter().any(|(known, _)| *known == name) {
                return None;
            }
            elements.push((name, element));
        }
        (kind != ListType::Atomic).then_some(elements)
    }
}

/// Returns the name of an element, from its keys. A port without a protocol uses TCP.
fn name_of(element: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let tcp = Value::from("TCP");
    let pairs = keys.iter().map(|key| {
        let value = element.get(*key).or_else(|| (*key == "protocol").then_some(&tcp))?;
        Some(format!("\"{key}\":{value}"))
    });
    Some(format!("k:{{{}}}", pairs.collect::<Option<Vec<_>>>()?.join(",")))
}
