//! Objects that are produced when they are sent, and so take no memory.
//!
//! A [`Generator`] produces objects from their numbers. An object that is written or deleted is
//! *hidden* in the generator from then on; if it still exists, it is a stored object. The generator
//! records the version at which it was hidden, so that lists of older versions stay complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::change;
use crate::object::{Draft, Fields, Key, Object, text};
use crate::{Error, Resource};

/// The namespace of generated objects whose metadata has none.
const NAMESPACE: &str = "default";

/// The objects of one call of [`generate`](crate::ApiServer::generate).
pub(crate) struct Generator {
    pub(crate) count: u64,
    resource: Arc<Resource>,
    /// The version before that of object 0; the versions of the objects are consecutive.
    pub(crate) before: u64,
    created: String,
    make: Make,
}

/// The user's function, which produces an object from its number.
type Make = Box<dyn Fn(u64) -> Value + Send + Sync>;

impl Generator {
    /// Creates a generator, and checks its first and its last object by calling the user's
    /// function.
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
        // `new` has checked the first and the last object. Another object that is invalid becomes
        // an empty one.
        let mut draft = Draft::new((self.make)(number), &self.resource)
            .unwrap_or_else(|_| Draft { metadata: Fields::new(), rest: Fields::new() });
        let version = self.before + number + 1;
        draft.stamp(version, &self.created);
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

    /// Returns the object with this key. The name of an object ends in its number, so at most 20
    /// objects are produced to find it.
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

/// The identity of a generated object: the index of its generator, and its number.
pub(crate) type GeneratedId = (usize, u64);

/// All generators of a resource. Walks share this value, so a change during a walk copies it
/// first.
#[derive(Clone, Default)]
pub(crate) struct Generators {
    pub(crate) all: Vec<Arc<Generator>>,
    /// The generated objects that were written or deleted, and so are hidden, with the version of
    /// the first such change.
    hidden: BTreeMap<GeneratedId, u64>,
}

impl Generators {
    pub(crate) fn hide(&mut self, generated: GeneratedId, version: u64) {
        self.hidden.entry(generated).or_insert(version);
    }

    /// Returns whether the object is hidden at a version.
    pub(crate) fn hides(&self, generated: GeneratedId, version: u64) -> bool {
        self.hidden.get(&generated).is_some_and(|since| *since <= version)
    }

    /// Returns whether the object is hidden at the newest version.
    pub(crate) fn hides_now(&self, generated: GeneratedId) -> bool {
        self.hidden.contains_key(&generated)
    }

    /// Returns the number of generated objects that are not hidden at a version, counted from
    /// object `number` of the generator at `index` on.
    pub(crate) fn count(&self, (index, number): GeneratedId, version: u64) -> u64 {
        let made: u64 = self.all.iter().skip(index).map(|generator| generator.count).sum();
        let passed = self.all.get(index).map_or(0, |generator| number.min(generator.count));
        let hidden =
            self.hidden.range((index, number)..).filter(|(_, since)| **since <= version).count();
        made - passed - hidden as u64
    }

    /// Returns the generated object with this key, hidden or not. Calls the user's function.
    pub(crate) fn find(&self, key: &Key) -> Option<(GeneratedId, Arc<Object>)> {
        self.all.iter().enumerate().find_map(|(index, generator)| {
            let (number, object) = generator.find(key)?;
            Some(((index, number), Arc::new(object)))
        })
    }

    /// Returns the id that follows this one, with which a walk continues.
    pub(crate) fn after(&self, (index, number): GeneratedId) -> GeneratedId {
        match self.all.get(index) {
            Some(generator) if number.saturating_add(1) < generator.count => (index, number + 1),
            _ => (index + 1, 0),
        }
    }
}
