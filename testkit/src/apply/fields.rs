//! Sets of fields of an object, in the format `FieldsV1` of `managedFields`.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};

use crate::steps::step;

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

    /// Returns the set of the field at a path.
    pub(super) fn of_path(path: &[&str]) -> Self {
        path.iter().rev().fold(Self::leaf(), |below, name| {
            let children = BTreeMap::from_iter([(format!("f:{name}"), below)]);
            Self { is_member: false, children }
        })
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

    /// Removes the fields of another set. Takes time in proportion to this set: each of many
    /// managers loses the fields of one change, which can be large.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        self.children.retain(|name, own| {
            step();
            other.children.get(name).is_none_or(|set| {
                own.subtract(set);
                !own.is_empty()
            })
        });
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

    /// Returns the number of fields in the set.
    pub(super) fn count(&self) -> usize {
        usize::from(self.is_member) + self.children.values().map(Self::count).sum::<usize>()
    }

    /// Returns the paths of the first `most` fields in the set, as the causes of a conflict name
    /// them.
    pub(super) fn paths(&self, most: usize) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths(None, most, &mut paths);
        paths
    }

    fn add_paths(&self, path: Option<&Path<'_>>, most: usize, paths: &mut Vec<String>) {
        if self.is_member && paths.len() < most {
            paths.push(path.map(shortened).unwrap_or_default());
        }
        for (name, set) in &self.children {
            if paths.len() >= most {
                break;
            }
            set.add_paths(Some(&Path { above: path, step: Step::Node(name) }), most, paths);
        }
    }
}

/// The path of a field. Its text is made only for messages: those of all fields together can be
/// much longer than the object.
pub(super) struct Path<'a> {
    pub(super) above: Option<&'a Path<'a>>,
    pub(super) step: Step<'a>,
}

/// A part of a path.
pub(super) enum Step<'a> {
    /// The field of a map.
    Field(&'a str),
    /// An element of a list that is replaced as a whole.
    Index(usize),
    /// A node of a [`FieldSet`].
    Node(&'a str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        self.step.fmt(f)
    }
}

/// Writes the part, for example `.image` or `[name="web"]`.
impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::Field(name) => return write!(f, ".{name}"),
            Self::Index(index) => return write!(f, "[{index}]"),
            Self::Node(name) => name,
        };
        // A client can send any name, even one without a prefix.
        match name.split_at_checked(2).unwrap_or(("", name)) {
            ("f:", field) => write!(f, ".{field}"),
            ("v:", value) => write!(f, "[={value}]"),
            (_, keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                f.write_str("[")?;
                for (at, (key, value)) in keys.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{key}={value}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The largest number of paths in a refusal. A client needs a few, and an object can have millions.
pub(super) const MOST_CAUSES: usize = 100;
/// The largest number of bytes of a path in a refusal, and of the name of a manager.
pub(super) const LONGEST: usize = 1_000;

/// Returns a text, without the bytes that are too many.
pub(super) fn shortened(text: impl fmt::Display) -> String {
    struct Truncated(String);
    impl fmt::Write for Truncated {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let mut end = text.len().min(LONGEST - self.0.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            self.0.push_str(&text[..end]);
            if end == text.len() { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut truncated = Truncated(String::new());
    if write!(truncated, "{text}").is_err() {
        truncated.0.push_str("...");
    }
    truncated.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FieldSet, LONGEST, Path, Step, shortened};
    use crate::steps::assert_linear;

    #[test]
    fn set_is_read_and_written_as_fields_v1() {
        let json = json!({
            "f:data": { "f:a": {} },
            "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": { ".": {}, "f:image": {} } } },
        });
        let set = FieldSet::from_json(&json);
        assert_eq!(set.to_json(), json);
        let web = ".spec.containers[name=\"web\"]".to_owned();
        assert_eq!(set.paths(9), [".data.a".to_owned(), web.clone(), web + ".image"]);
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
        assert_eq!(set.paths(9), [".a", ".a.b", ".c", ".d"]);
    }

    #[test]
    fn difference_of_a_small_and_a_large_set_takes_few_steps() {
        const COUNT: usize = 500;
        let set = |count: usize| {
            let mut set = FieldSet::default();
            for number in 0..count {
                set.insert(format!("f:{number}"), FieldSet::leaf());
            }
            set
        };
        let large = set(COUNT);
        let mut small = vec![set(1); COUNT];
        assert_linear(COUNT, || small.iter_mut().for_each(|set| set.subtract(&large)));
        assert!(small.iter().all(FieldSet::is_empty));
    }

    #[test]
    fn paths_are_few_and_short() {
        let mut inner = serde_json::Map::new();
        for number in 0..1_000 {
            inner.insert(format!("f:{number:04}"), json!({}));
        }
        let set = FieldSet::from_json(&json!({ format!("f:{}", "é".repeat(10_000)): inner }));
        assert_eq!(set.count(), 1_000);
        let paths = set.paths(7);
        assert_eq!(paths.len(), 7);
        assert!(paths.iter().all(|path| path.len() <= LONGEST + 3 && path.ends_with("...")));
    }

    #[test]
    fn any_name_can_be_written() {
        for (name, text) in
            [("f:a", ".a"), ("v:1", "[=1]"), ("a", "[]"), ("é", "[]"), ("aé", "[]"), ("", "[]")]
        {
            assert_eq!(shortened(Path { above: None, step: Step::Node(name) }), text);
        }
    }
}
