//! The managers of an object's fields: `metadata.managedFields`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::mem;

use serde_json::{Value, json};

use super::fields::FieldSet;
use crate::object::{Fields, text};
use crate::steps::Counted;

pub(super) const FIELD: &str = "managedFields";
/// The largest number of managers of updates. Of more, the oldest become one manager.
const MOST: usize = 10;
/// The manager that the oldest managers of updates become.
const ANCIENT: &str = "ancient-changes";

/// The identity of a manager. One program can be several managers: of its applied configurations
/// and of its updates, of the object and of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) applies: bool,
    pub(super) api_version: String,
    /// The subresource; empty for the object itself.
    pub(super) subresource: String,
}

impl Manager {
    /// Returns the manager as the message of a conflict names it.
    pub(super) fn title(&self) -> String {
        let mut title = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            let _ = write!(title, " with subresource {:?}", self.subresource);
        }
        if !self.applies {
            let _ = write!(title, " using {}", self.api_version);
        }
        title
    }
}

/// Returns whether all entries of `managedFields` can be read.
pub(super) fn is_valid(entries: Option<&Value>) -> bool {
    let is_entry = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        matches!(text("operation"), "Apply" | "Update")
            && !text("apiVersion").is_empty()
            && text("fieldsType") == "FieldsV1"
            && is_set(&entry["fieldsV1"])
    };
    entries.and_then(Value::as_array).into_iter().flatten().all(is_entry)
}

/// Returns whether a value has the format `FieldsV1`.
fn is_set(value: &Value) -> bool {
    let is_name = |name: &str| {
        name == "." || ["f:", "k:", "v:", "i:"].iter().any(|prefix| name.starts_with(prefix))
    };
    value.as_object().is_some_and(|set| set.iter().all(|(name, set)| is_name(name) && is_set(set)))
}

/// A manager, the fields that it has, and the time at which they last changed.
#[derive(Clone, Debug)]
struct Entry {
    manager: Manager,
    time: String,
    fields: FieldSet,
}

/// The managers of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers(Vec<Entry>);

impl Managers {
    /// Reads the managers from an object's metadata.
    pub(super) fn read(metadata: &Fields) -> Self {
        let entries = metadata.get(FIELD).and_then(Value::as_array).into_iter().flatten();
        let read = |json: &Value| {
            let entry = json.as_object().filter(|entry| !entry.is_empty())?;
            Some(Entry {
                manager: Manager {
                    name: text(entry, "manager").to_owned(),
                    applies: text(entry, "operation") == "Apply",
                    api_version: text(entry, "apiVersion").to_owned(),
                    subresource: text(entry, "subresource").to_owned(),
                },
                time: text(entry, "time").to_owned(),
                fields: FieldSet::from_json(entry.get("fieldsV1").unwrap_or(&Value::Null)),
            })
        };
        Self(entries.filter_map(read).collect())
    }

    /// Writes the managers into an object's metadata, in the order of the real server.
    pub(super) fn write(mut self, metadata: &mut Fields) {
        self.0.sort_by(|left, right| {
            let key = |entry: &Entry| {
                let Manager { name, applies, subresource, .. } = &entry.manager;
                (!applies, entry.time.clone(), name.clone(), subresource.clone())
            };
            key(left).cmp(&key(right))
        });
        let entries: Vec<Value> = self.0.into_iter().map(Entry::into_json).collect();
        if entries.is_empty() {
            metadata.remove(FIELD);
        } else {
            metadata.insert(FIELD.to_owned(), entries.into());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn fields(&self, manager: &Manager) -> FieldSet {
        let entry = self.0.iter().find(|entry| entry.manager == *manager);
        entry.map(|entry| entry.fields.clone()).unwrap_or_default()
    }

    /// Sets the fields of a manager, and the time if they have changed.
    pub(super) fn set(&mut self, manager: &Manager, mut fields: FieldSet, now: &str) {
        // No manager has the metadata as a whole.
        if let Some(metadata) = fields.children.get_mut("f:metadata") {
            metadata.is_member = false;
        }
        match self.0.iter().position(|entry| entry.manager == *manager) {
            Some(at) if fields.is_empty() => drop(self.0.remove(at)),
            Some(at) if self.0[at].fields == fields => {}
            Some(at) => (self.0[at].fields, self.0[at].time) = (fields, now.to_owned()),
            None if fields.is_empty() => {}
            None => {
                self.0.push(Entry { manager: manager.clone(), time: now.to_owned(), fields });
            }
        }
    }

    /// Returns the fields of all managers but one.
    pub(super) fn fields_of_others(&self, manager: &Manager) -> FieldSet {
        let mut all = FieldSet::default();
        for entry in self.0.iter().filter(|entry| entry.manager != *manager) {
            all.add(&entry.fields);
        }
        all
    }

    /// Returns the fields of `changed` that other managers have, by manager.
    pub(super) fn conflicts(
        &self,
        manager: &Manager,
        changed: &FieldSet,
    ) -> Vec<(Manager, FieldSet)> {
        let others = self.0.iter().filter(|entry| entry.manager != *manager);
        let common =
            others.map(|entry| (entry.manager.clone(), entry.fields.intersection(changed)));
        common.filter(|(_, fields)| !fields.is_empty()).collect()
    }

    /// Merges the oldest managers of updates, if there are too many: those of one API version into
    /// one manager, until few enough are left.
    pub(super) fn merge_oldest(&mut self) {
        let (mut updates, applied): (Vec<Entry>, Vec<Entry>) =
            mem::take(&mut self.0).into_iter().partition(|entry| !entry.manager.applies);
        updates.sort_by(|left, right| {
            // The manager of earlier merges is the oldest.
            let key = |entry: &Entry| {
                let name = &entry.manager.name;
                (entry.time.clone(), name != ANCIENT, name.clone())
            };
            key(left).cmp(&key(right))
        });
        let mut merged: Vec<Entry> = Vec::new();
        // The index of the oldest manager of each API version.
        let mut oldest: HashMap<Counted<String>, usize> = HashMap::new();
        let mut left = updates.len();
        for entry in updates {
            let version = Counted(entry.manager.api_version.clone());
            if let Some(at) = oldest.get(&version).filter(|_| left > MOST) {
                left -= 1;
                let oldest = &mut merged[*at];
                ANCIENT.clone_into(&mut oldest.manager.name);
                oldest.manager.subresource.clear();
                oldest.fields.add(&entry.fields);
                oldest.time = entry.time;
            } else {
                oldest.entry(version).or_insert(merged.len());
                merged.push(entry);
            }
        }
        self.0 = applied;
        self.0.extend(merged);
    }

    /// Returns whether a manager has one of the fields.
    pub(super) fn have(&self, fields: &FieldSet) -> bool {
        self.0.iter().any(|entry| !entry.fields.intersection(fields).is_empty())
    }

    /// Takes fields away from all managers.
    pub(super) fn remove(&mut self, fields: &FieldSet) {
        self.0.iter_mut().for_each(|entry| entry.fields.subtract(fields));
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Takes fields away from all managers but one.
    pub(super) fn take_from_others(&mut self, manager: &Manager, fields: &FieldSet) {
        for entry in self.0.iter_mut().filter(|entry| entry.manager != *manager) {
            entry.fields.subtract(fields);
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }
}

impl Entry {
    fn into_json(self) -> Value {
        let Manager { name, applies, api_version, subresource } = self.manager;
        let mut json = json!({
            "manager": name,
            "operation": if applies { "Apply" } else { "Update" },
            "apiVersion": api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_json(),
        });
        if !subresource.is_empty() {
            json["subresource"] = subresource.into();
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FIELD, Managers};
    use crate::object::Fields;
    use crate::steps::assert_linear;

    const COUNT: usize = 500;

    #[test]
    fn oldest_managers_of_many_versions_are_found_in_a_few_steps_each() {
        let manager = |number: usize| {
            json!({
                "manager": "m", "operation": "Update", "apiVersion": format!("v{}", number % COUNT),
                "fieldsV1": { format!("f:{number}"): {} },
            })
        };
        let mut metadata = Fields::new();
        metadata.insert(FIELD.to_owned(), (0..2 * COUNT).map(manager).collect());
        let mut managers = Managers::read(&metadata);
        assert_linear(COUNT, || managers.merge_oldest());
        assert_eq!(managers.0.len(), COUNT, "one for each version");
    }
}
