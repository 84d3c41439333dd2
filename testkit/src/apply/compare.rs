//! The fields that an object has, and those in which two objects differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::FieldSet;
use super::schema::Place;

/// Returns the fields of an applied configuration.
pub(super) fn fields_of(value: &Value, at: &Place<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    match value {
        Value::Object(map) if !map.is_empty() && !at.is_atomic_map() => {
            for (name, value) in map {
                set.insert(format!("f:{name}"), fields_of(value, &at.field(name)));
            }
            set
        }
        // A list that merges and is empty has no fields, not even itself.
        Value::Array(list) => {
            let Some(elements) = at.elements(list) else {
                return FieldSet::leaf();
            };
            for (name, value) in elements {
                let mut element = fields_of(value, &at.element());
                element.is_member = true;
                set.insert(name, element);
            }
            set
        }
        _ => FieldSet::leaf(),
    }
}

/// The fields in which two objects differ.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// The fields that are new or have another value.
    pub(super) changed: FieldSet,
    /// The fields that are gone.
    pub(super) removed: FieldSet,
}

impl Difference {
    fn insert(&mut self, name: &str, below: Self) {
        self.changed.insert(name.to_owned(), below.changed);
        self.removed.insert(name.to_owned(), below.removed);
    }

    /// Returns all fields in which the objects differ.
    pub(super) fn changed_and_removed(&self) -> FieldSet {
        let mut all = self.changed.clone();
        all.add(&self.removed);
        all
    }

    fn changed() -> Self {
        Self { changed: FieldSet::leaf(), ..Self::default() }
    }
}

/// Returns the fields in which `new` differs from `old`. A map or list that is new or gone is in
/// the result itself, with all fields below it.
pub(super) fn compare(old: Option<&Value>, new: Option<&Value>, at: &Place<'_>) -> Difference {
    let (old, new) = match (old, new) {
        (None, None) => return Difference::default(),
        (None, Some(new)) => {
            let mut changed = fields_below(new, at);
            changed.is_member = true;
            return Difference { changed, removed: FieldSet::default() };
        }
        (Some(old), None) => {
            let mut removed = fields_below(old, at);
            removed.is_member = true;
            return Difference { removed, changed: FieldSet::default() };
        }
        (Some(old), Some(new)) if old == new => return Difference::default(),
        (Some(old), Some(new)) => (old, new),
    };
    let mut found = Difference::default();
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if !at.is_atomic_map() => {
            for (name, value) in old {
                let below = compare(Some(value), new.get(name), &at.field(name));
                found.insert(&format!("f:{name}"), below);
            }
            for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                found.insert(&format!("f:{name}"), compare(None, Some(value), &at.field(name)));
            }
            found
        }
        (Value::Array(old), Value::Array(new)) => {
            let (Some(old), Some(new)) = (at.elements(old), at.elements(new)) else {
                return Difference::changed();
            };
            let mut pairs: BTreeMap<String, [Vec<&Value>; 2]> = BTreeMap::new();
            for (side, list) in [old, new].into_iter().enumerate() {
                for (name, value) in list {
                    pairs.entry(name).or_default()[side].push(value);
                }
            }
            for (name, [old, new]) in pairs {
                found.insert(&name, compare_elements(&old, &new, &at.element()));
            }
            found
        }
        _ => Difference::changed(),
    }
}

/// Compares the elements of two lists that have one name. Elements that share a name count as one
/// field, without fields below it.
fn compare_elements(old: &[&Value], new: &[&Value], at: &Place<'_>) -> Difference {
    let is_shared = |elements: &[&Value]| elements.len() > 1;
    match (is_shared(old), is_shared(new)) {
        (false, false) => compare(old.first().copied(), new.first().copied(), at),
        (true, true) if old == new => Difference::default(),
        (true, true) => Difference::changed(),
        (true, false) => {
            let changed = compare(None, new.first().copied(), at).changed;
            Difference { changed, removed: FieldSet::leaf() }
        }
        (false, true) => {
            let removed = compare(old.first().copied(), None, at).removed;
            Difference { changed: FieldSet::leaf(), removed }
        }
    }
}

/// Returns the fields below a value, with all maps and lists on the way.
fn fields_below(value: &Value, at: &Place<'_>) -> FieldSet {
    let mut set = FieldSet::leaf();
    match value {
        Value::Object(map) if !at.is_atomic_map() => {
            for (name, value) in map {
                set.insert(format!("f:{name}"), fields_below(value, &at.field(name)));
            }
        }
        Value::Array(list) => {
            for (name, value) in at.elements(list).unwrap_or_default() {
                let is_shared = set.children.contains_key(&name);
                let below = fields_below(value, &at.element());
                set.insert(name, if is_shared { FieldSet::leaf() } else { below });
            }
        }
        _ => {}
    }
    set
}
