//! Objects that are made when somebody looks at them, and so take no memory.
//!
//! A [`Generator`] makes objects from their numbers. When one of them is written or deleted it is
//! *hidden* from then on, and lives, if it does, among the stored ones. What is hidden says since
//! which version, so that an older list is still whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::change;
use crate::object::{Draft, Fields, Key, Object, text};
use crate::{Error, Resource};

/// In which namespace generated objects are that name none.
const NAMESPACE: &str = "default";

/// The objects of one [`generate`](crate::ApiServer::generate).
pub(crate) struct Generator {
    pub(crate) count: u64,
    resource: Arc<Resource>,
    /// Object 0 has the version after this one.
    pub(crate) before: u64,
    created: String,
    make: Make,
}

/// The user's function.
type Make = Box<dyn Fn(u64) -> Value + Send + Sync>;

impl Generator {
    /// Looks at the first object and the last. Runs the user's function, as the other methods do.
    pub(crate) fn new(resource: Arc<Resource>, count: u64, make: Make) -> Result<Self, Error> {
        let generator = Self { count, resource, before: 0, created: change::now(), make };
        for number in [0, count.saturating_sub(1)].into_iter().filter(|_| count > 0) {
            Draft::new((generator.make)(number), &generator.resource).map_err(Error::Refused)?;
            let key = generator.object(number).key;
            if generator.find(&key).is_none_or(|(found, _)| found != number) {
                return Err(Error::Name { number, name: key.name });
            }
        }
        Ok(generator)
    }

    pub(crate) fn object(&self, number: u64) -> Object {
        // The first and the last are objects of the kind; another that is none is an empty one.
        let mut draft = Draft::new((self.make)(number), &self.resource)
            .unwrap_or_else(|_| Draft { metadata: Fields::new(), rest: Fields::new() });
        let version = self.before + number + 1;
        draft.begin(version, &self.created);
        let name = match text(&draft.metadata, "name") {
            "" => format!("{}-{number}", self.resource.plural()),
            name => name.to_owned(),
        };
        let namespace = match text(&draft.metadata, "namespace") {
            _ if !self.resource.is_namespaced() => "",
            "" => NAMESPACE,
            namespace => namespace,
        };
        let key = Key { namespace: namespace.to_owned(), name };
        draft.seal(key, version)
    }

    /// The object that is called so. A name ends in its object's number, so at most 20 are looked
    /// at.
    fn find(&self, key: &Key) -> Option<(u64, Object)> {
        let name = key.name.as_str();
        let digits = name.len() - name.trim_end_matches(|end: char| end.is_ascii_digit()).len();
        (1..=digits.min(20))
            .filter_map(|length| name[name.len() - length..].parse::<u64>().ok())
            .filter(|number| *number < self.count)
            .map(|number| (number, self.object(number)))
            .find(|(_, object)| object.key == *key)
    }
}

/// Which generated object: the generator's place, and the number.
pub(crate) type Born = (usize, u64);

/// All generators of a resource. Shared by who walks over them and copied by who changes them
/// meanwhile.
#[derive(Clone, Default)]
pub(crate) struct Generators {
    pub(crate) parts: Vec<Arc<Generator>>,
    /// What was written since, with the version of the first write.
    hidden: BTreeMap<Born, u64>,
}

impl Generators {
    pub(crate) fn hide(&mut self, born: Born, version: u64) {
        self.hidden.entry(born).or_insert(version);
    }

    /// Whether it is hidden at a version.
    pub(crate) fn hides(&self, born: Born, version: u64) -> bool {
        self.hidden.get(&born).is_some_and(|since| *since <= version)
    }

    /// Whether it is hidden by now.
    pub(crate) fn hides_now(&self, born: Born) -> bool {
        self.hidden.contains_key(&born)
    }

    /// How many there are from `from` on, at a version.
    pub(crate) fn count(&self, (part, number): Born, version: u64) -> u64 {
        let made: u64 = self.parts.iter().skip(part).map(|generator| generator.count).sum();
        let passed = self.parts.get(part).map_or(0, |generator| number.min(generator.count));
        let hidden =
            self.hidden.range((part, number)..).filter(|(_, since)| **since <= version).count();
        made - passed - hidden as u64
    }

    /// The generated object that is called so, hidden or not. Runs the user's function.
    pub(crate) fn find(&self, key: &Key) -> Option<(Born, Arc<Object>)> {
        self.parts.iter().enumerate().find_map(|(part, generator)| {
            let (number, object) = generator.find(key)?;
            Some(((part, number), Arc::new(object)))
        })
    }

    /// The place after this one.
    pub(crate) fn after(&self, (part, number): Born) -> Born {
        match self.parts.get(part) {
            Some(generator) if number.saturating_add(1) < generator.count => (part, number + 1),
            _ => (part + 1, 0),
        }
    }
}
