//! Sets of fields of an object, in the format `FieldsV1` of `managedFields`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// The name with which a set contains the node itself, and not only fields below it.
const SELF: &str = ".";

/// A set of fields. The names of its nodes are those of `FieldsV1`: `f:` and the name of a field,
/// `k:` and the keys of an element of a list, or `v:` and the value of an element of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// Whether the field at this node is in the set.
    pub(super) is_member: bool,
    pub(super) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub(super) fn leaf() -> Self {
        Self { is_member: true, children: BTreeMap::new() }
    }

    /// Parses `FieldsV1`. Ignores values that are not objects.
    pub(super) fn from_json(json: &Value) -> Self {
        let Some(fields) = json.as_object() else {
            return Self::default();
        };
        let child = |(name, json): (&String, &Value)| {
            let mut set = Self::from_json(json);
            set.is_member |= set.children.is_empty();
            (name.clone(), set)
        };
        let children = fields.iter().filter(|(name, _)| *name != SELF).map(child).collect();
        Self { is_member: fields.contains_key(SELF), children }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        if self.is_member && !self.children.is_empty() {
            fields.insert(SELF.to_owned(), json!({}));
        }
        fields.extend(self.children.iter().map(|(name, set)| (name.clone(), set.to_json())));
        Value::Object(fields)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }

    /// Adds the set of a child, unless that set is empty.
    pub(super) fn insert(&mut self, name: String, set: Self) {
        if !set.is_empty() {
            self.children.insert(name, set);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (name, set) in &other.children {
            self.children.entry(name.clone()).or_default().add(set);
        }
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        for (name, set) in &other.children {
            if let Some(own) = self.children.get_mut(name) {
                own.subtract(set);
                if own.is_empty() {
                    self.children.remove(name);
                }
            }
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self { is_member: self.is_member && other.is_member, ..Self::default() };
        for (name, set) in &self.children {
            if let Some(other) = other.children.get(name) {
                both.insert(name.clone(), set.intersection(other));
            }
        }
        both
    }

    /// Returns the paths of the fields in the set, as the causes of a conflict name them.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths("", &mut paths);
        paths
    }

    fn add_paths(&self, path: &str, paths: &mut Vec<String>) {
        if self.is_member {
            paths.push(path.to_owned());
        }
        for (name, set) in &self.children {
            set.add_paths(&(path.to_owned() + &step(name)), paths);
        }
    }
}

/// Returns a node's part of a path, for example `.image` or `[name="web"]`.
pub(super) fn step(name: &str) -> String {
    let (kind, rest) = name.split_at(name.len().min(2));
    match kind {
        "f:" => format!(".{rest}"),
        "v:" => format!("[={rest}]"),
        _ => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let mut text = String::from("[");
            for (at, (key, value)) in keys.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(text, "{comma}{key}={value}");
            }
            text + "]"
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FieldSet;

    #[test]
    fn set_is_read_and_written_as_fields_v1() {
        let json = json!({
            "f:data": { "f:a": {} },
            "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": { ".": {}, "f:image": {} } } },
        });
        let set = FieldSet::from_json(&json);
        assert_eq!(set.to_json(), json);
        let web = ".spec.containers[name=\"web\"]".to_owned();
        assert_eq!(set.paths(), [".data.a".to_owned(), web.clone(), web + ".image"]);
        assert!(FieldSet::from_json(&json!({})).is_empty());
    }

    #[test]
    fn difference_drops_nodes_without_members() {
        let mut set = FieldSet::from_json(&json!({ "f:a": { ".": {}, "f:b": {} }, "f:c": {} }));
        let other = FieldSet::from_json(&json!({ "f:a": { ".": {}, "f:b": {} }, "f:d": {} }));
        assert_eq!(set.intersection(&other).to_json(), json!({ "f:a": { ".": {}, "f:b": {} } }));
        set.subtract(&other);
        assert_eq!(set.to_json(), json!({ "f:c": {} }));
        set.add(&other);
        assert_eq!(set.paths(), [".a", ".a.b", ".c", ".d"]);
    }
}
