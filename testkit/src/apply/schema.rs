//! How the fields of an object merge: which lists merge by keys or as sets, and which maps are
//! replaced as a whole.
//!
//! For a built-in kind this is in `schema.txt`, by the path of types from the kind to the field.
//! For a custom resource it is in the schema of its definition.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::Resource;

/// How a list merges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType<'a> {
    /// The list is replaced as a whole.
    #[default]
    Atomic,
    /// Elements with equal values of these keys merge.
    Keyed(Vec<Key<'a>>),
    /// The list is a set of values.
    Set,
}

/// A key of the elements of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    pub(crate) name: &'a str,
    /// The value in an element without the key.
    default: Option<Value>,
}

/// The properties of a field of a built-in kind.
#[derive(Debug, Default)]
pub(crate) struct Field {
    list: ListType<'static>,
    /// How strategic merge patches merge the list.
    patch: ListType<'static>,
    /// Whether the map, or each map in the list, is replaced as a whole.
    is_atomic: bool,
    /// The name of the type of the map, or of the elements of the list.
    below: Option<&'static str>,
}

/// The fields of a type that have properties.
type Fields = HashMap<&'static str, Field>;

/// The types of built-in kinds.
static TYPES: LazyLock<HashMap<&'static str, Fields>> =
    LazyLock::new(|| parse(include_str!("schema.txt")));

/// The metadata of an object of any kind.
static METADATA: Field = Field {
    list: ListType::Atomic,
    patch: ListType::Atomic,
    is_atomic: false,
    below: Some("ObjectMeta"),
};

/// Parses `schema.txt`, whose first lines describe its format.
fn parse(text: &'static str) -> HashMap<&'static str, Fields> {
    let mut types: HashMap<&str, Fields> = HashMap::new();
    let mut name = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ").and_then(|line| line.split_once(' ')) {
            Some((field, properties)) => {
                types.entry(name).or_default().insert(field, Field::parse(properties));
            }
            None => name = line,
        }
    }
    types
}

impl Field {
    /// Parses the properties of a field, for example `[name=""] ~name core.v1.Volume`.
    fn parse(text: &'static str) -> Self {
        let mut field = Self::default();
        let mut rest = text;
        if let Some((keys, after)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            field.list = if keys.is_empty() {
                ListType::Set
            } else {
                ListType::Keyed(keys.split(' ').map(Key::parse).collect())
            };
            rest = after;
        }
        for word in rest.split_whitespace() {
            match word.strip_prefix('~') {
                Some("") => field.patch = ListType::Set,
                Some(key) => field.patch = ListType::Keyed(vec![Key::parse(key)]),
                None if word == "atomic" => field.is_atomic = true,
                None => field.below = Some(word),
            }
        }
        field
    }
}

impl<'a> Key<'a> {
    /// Parses a key, for example `protocol="TCP"`.
    fn parse(text: &'a str) -> Self {
        let (name, default) = text.split_once('=').unwrap_or((text, ""));
        Self { name, default: serde_json::from_str(default).ok() }
    }
}

/// A place in an object, with the known properties of its values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// The object itself.
    Root(&'a Resource),
    /// A field of a built-in kind, or an element of it.
    Known(&'static Field),
    /// A value in a custom resource, with its schema.
    Custom(&'a Value),
    /// A place without known properties. Lists are replaced as a whole there, and maps merge.
    Unknown,
}

impl<'a> Place<'a> {
    pub(crate) fn root(resource: &'a Resource) -> Self {
        Self::Root(resource)
    }

    /// Returns the place of a field of the map at this place.
    pub(crate) fn field(&self, name: &str) -> Self {
        match *self {
            Self::Root(_) if name == "metadata" => Self::Known(&METADATA),
            Self::Root(resource) if resource.is_custom() => Self::of(resource.schema(), name),
            Self::Root(resource) => {
                Self::in_type(&format!("{} {}", resource.api_version(), resource.kind()), name)
            }
            Self::Known(field) => {
                field.below.map_or(Self::Unknown, |below| Self::in_type(below, name))
            }
            Self::Custom(schema) => Self::of(schema, name),
            Self::Unknown => Self::Unknown,
        }
    }

    fn in_type(of: &str, name: &str) -> Self {
        let field = TYPES.get(of).and_then(|fields| fields.get(name));
        field.map_or(Self::Unknown, Self::Known)
    }

    /// Returns the place of a field of a custom resource, from the schema of the map around it.
    fn of(schema: &'a Value, name: &str) -> Self {
        if name == "metadata" && schema["x-kubernetes-embedded-resource"] == true {
            return Self::Known(&METADATA);
        }
        let others = || schema.get("additionalProperties").filter(|others| others.is_object());
        let field = schema["properties"].get(name).or_else(others);
        field.map_or(Self::Unknown, Self::Custom)
    }

    /// Returns the place of each element of the list at this place.
    pub(crate) fn element(&self) -> Self {
        match *self {
            Self::Custom(schema) => schema.get("items").map_or(*self, Self::Custom),
            place => place,
        }
    }

    /// Returns how the list at this place merges.
    pub(crate) fn list(&self) -> ListType<'a> {
        match *self {
            Self::Known(field) => field.list.clone(),
            Self::Custom(schema) if schema["x-kubernetes-list-type"] == "set" => ListType::Set,
            Self::Custom(schema) if schema["x-kubernetes-list-type"] == "map" => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let default = |key: &str| schema["items"]["properties"][key].get("default");
                let keys = keys.filter_map(Value::as_str);
                let keys = keys.map(|name| Key { name, default: default(name).cloned() });
                let mut keys: Vec<Key<'_>> = keys.collect();
                keys.sort_by_key(|key| key.name);
                ListType::Keyed(keys)
            }
            Self::Root(_) | Self::Custom(_) | Self::Unknown => ListType::Atomic,
        }
    }

    /// Returns how a strategic merge patch merges the list at this place.
    pub(crate) fn patched_list(&self) -> &'static ListType<'static> {
        match *self {
            Self::Known(field) => &field.patch,
            Self::Root(_) | Self::Custom(_) | Self::Unknown => &ListType::Atomic,
        }
    }

    /// Returns whether the map at this place is replaced as a whole.
    pub(crate) fn is_atomic_map(&self) -> bool {
        match *self {
            Self::Known(field) => field.is_atomic,
            Self::Custom(schema) => schema["x-kubernetes-map-type"] == "atomic",
            Self::Root(_) | Self::Unknown => false,
        }
    }

    /// Returns the elements of the list at this place with their names in a
    /// [`FieldSet`](super::fields::FieldSet), or `None` if the list is replaced as a whole, or has
    /// an element that can have no name. Elements with equal keys have the same name.
    pub(crate) fn elements<'v>(&self, list: &'v [Value]) -> Option<Vec<(String, &'v Value)>> {
        let kind = self.list();
        if kind == ListType::Atomic {
            return None;
        }
        list.iter().map(|element| Some((kind.name_of(element)?.ok()?, element))).collect()
    }
}

impl ListType<'_> {
    /// Returns the name of an element, from its keys or its value, or why it can have none. Returns
    /// `None` if the list is replaced as a whole.
    pub(super) fn name_of(&self, element: &Value) -> Option<Result<String, String>> {
        let keys = match self {
            Self::Atomic => return None,
            Self::Keyed(keys) => keys,
            Self::Set if element.is_object() || element.is_array() || element.is_null() => {
                return Some(Err("a set has an element that is not a scalar".to_owned()));
            }
            Self::Set => return Some(Ok(format!("v:{element}"))),
        };
        let Value::Object(element) = element else {
            let why = "a list that merges by keys has an element that is not a map";
            return Some(Err(why.to_owned()));
        };
        let pairs = keys.iter().filter_map(|key| {
            let value = element.get(key.name).or(key.default.as_ref())?;
            Some(format!("\"{}\":{value}", key.name))
        });
        let pairs = pairs.collect::<Vec<_>>().join(",");
        if pairs.is_empty() {
            let keys: Vec<&str> = keys.iter().map(|key| key.name).collect();
            return Some(Err(format!(
                "a list that merges by keys has an element without its keys {keys:?}"
            )));
        }
        Some(Ok(format!("k:{{{pairs}}}")))
    }
}

#[cfg(test)]
mod tests {
    use kube::core::discovery::Scope;
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::{Key, ListType, Place, TYPES};
    use crate::Resource;

    fn built_in(api_version: &str, kind: &str) -> Resource {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let api = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Resource::built_in(api, Scope::Namespaced)
    }

    /// Returns the type of a list with these keys, as in `schema.txt`.
    fn keyed(keys: &'static str) -> ListType<'static> {
        ListType::Keyed(keys.split(' ').map(Key::parse).collect())
    }

    fn at<'a>(resource: &'a Resource, path: &str) -> Place<'a> {
        path.split('.').fold(Place::root(resource), |place, name| place.field(name))
    }

    #[test]
    fn list_type_depends_on_the_path_of_types() {
        let name = keyed(r#"name="""#);
        let kind = keyed(r#"type="""#);
        let pod_ports = keyed(r#"containerPort=0 protocol="TCP""#);
        for (api_version, of, path, expected) in [
            ("v1", "Pod", "status.hostIPs", ListType::Atomic),
            ("v1", "Pod", "status.podIPs", keyed(r#"ip="""#)),
            ("v1", "Pod", "status.conditions", kind.clone()),
            ("v1", "Pod", "spec.imagePullSecrets", name.clone()),
            ("v1", "Pod", "spec.containers.resources.claims", name.clone()),
            ("v1", "Pod", "spec.containers.ports", pod_ports),
            ("v1", "Pod", "status.resourceClaimStatuses", name.clone()),
            ("v1", "Pod", "metadata.ownerReferences", keyed(r#"uid="""#)),
            ("v1", "Pod", "metadata.finalizers", ListType::Set),
            ("v1", "ServiceAccount", "imagePullSecrets", ListType::Atomic),
            ("v1", "Node", "spec.podCIDRs", ListType::Set),
            ("batch/v1", "Job", "status.conditions", ListType::Atomic),
            ("batch/v1", "Job", "spec.template.spec.volumes", name.clone()),
            ("apps/v1", "Deployment", "status.conditions", kind.clone()),
            (
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                "webhooks.matchConditions",
                name,
            ),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "status.conditions", kind),
            ("unknown/v1", "Unknown", "spec.containers", ListType::Atomic),
            ("unknown/v1", "Unknown", "metadata.finalizers", ListType::Set),
        ] {
            let resource = built_in(api_version, of);
            assert_eq!(at(&resource, path).list(), expected, "{of} {path}");
        }
    }

    #[test]
    fn atomic_maps_depend_on_the_path_of_types() {
        for (api_version, of, path, expected) in [
            ("v1", "Pod", "spec.containers.env.valueFrom.fileKeyRef", true),
            ("v1", "Pod", "spec.containers.env.valueFrom", false),
            ("v1", "Pod", "spec.nodeSelector", true),
            ("v1", "Event", "involvedObject", true),
            ("events.k8s.io/v1", "Event", "regarding", true),
            ("v1", "PersistentVolume", "spec.claimRef", false),
            ("v1", "PersistentVolume", "spec.csi.nodeStageSecretRef", true),
            ("v1", "PersistentVolumeClaim", "spec.dataSource", true),
            ("v1", "ResourceQuota", "spec.scopeSelector", true),
            ("v1", "Service", "spec.selector", true),
            ("v1", "ReplicationController", "spec.selector", true),
            ("autoscaling/v1", "HorizontalPodAutoscaler", "spec.scaleTargetRef", true),
            ("autoscaling/v2", "HorizontalPodAutoscaler", "spec.scaleTargetRef", false),
            ("rbac.authorization.k8s.io/v1", "RoleBinding", "roleRef", true),
        ] {
            let resource = built_in(api_version, of);
            assert_eq!(at(&resource, path).is_atomic_map(), expected, "{of} {path}");
        }
    }

    #[test]
    fn strategic_patches_have_keys_of_their_own() {
        for (api_version, of, path, expected) in [
            ("v1", "Pod", "status.hostIPs", keyed("ip")),
            ("v1", "Pod", "spec.containers.ports", keyed("containerPort")),
            ("v1", "Pod", "spec.containers.resources.claims", ListType::Atomic),
            ("batch/v1", "Job", "status.conditions", keyed("type")),
            ("v1", "Service", "spec.ports", keyed("port")),
            ("v1", "Pod", "metadata.finalizers", ListType::Set),
        ] {
            let resource = built_in(api_version, of);
            assert_eq!(*at(&resource, path).patched_list(), expected, "{of} {path}");
        }
    }

    #[test]
    fn every_type_below_a_field_is_in_the_data() {
        for (name, fields) in TYPES.iter() {
            for (field, properties) in fields {
                let below = properties.below;
                assert!(below.is_none_or(|below| TYPES.contains_key(below)), "{name} {field}");
            }
        }
    }

    #[test]
    fn schema_of_a_definition_names_lists_and_maps() {
        let list = |kind: &str| json!({ "type": "array", "x-kubernetes-list-type": kind });
        let mut rules = list("map");
        rules["x-kubernetes-list-map-keys"] = json!(["port", "host"]);
        rules["items"]["properties"] =
            json!({ "port": { "default": 80 }, "tags": list("set"), "args": list("atomic") });
        let atomic = json!({ "type": "object", "x-kubernetes-map-type": "atomic" });
        let resource = Resource::custom(
            ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget")),
            Scope::Namespaced,
        )
        .with_schema(json!({ "properties": { "spec": { "properties": {
            "rules": rules,
            "reference": atomic,
            "named": { "additionalProperties": { "properties": { "tags": list("set") } } },
            "template": { "x-kubernetes-embedded-resource": true },
            "free": { "x-kubernetes-preserve-unknown-fields": true },
        } } } }));
        let list = |path: &str| at(&resource, path).list();
        let port = Key { name: "port", default: Some(80.into()) };
        assert_eq!(
            list("spec.rules"),
            ListType::Keyed(vec![Key { name: "host", default: None }, port])
        );
        let element = at(&resource, "spec.rules").element();
        assert_eq!(element.field("tags").list(), ListType::Set);
        assert_eq!(element.field("args").list(), ListType::Atomic);
        assert!(at(&resource, "spec.reference").is_atomic_map());
        assert_eq!(list("spec.named.x.tags"), ListType::Set);
        assert_eq!(list("spec.template.metadata.finalizers"), ListType::Set);
        assert_eq!(list("spec.free.containers"), ListType::Atomic);
        assert!(!at(&resource, "spec.free.selector").is_atomic_map());
    }
}
