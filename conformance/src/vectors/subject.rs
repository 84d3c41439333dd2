//! What the runner needs of an engine, and which engines there are.

use std::sync::Arc;

use deltafifo::{
    BoxError, Delta, DeltaObject, Deltas, KeyError, KeySource, Meta, OfferError, RelistError,
};

use super::{
    Action, Answer, Config, KnownKind, Obj, Outcome, deltafifo::FifoSubject, mutex::MutexSubject,
    oracle_model::ModelSubject,
};

/// A queue under test: one method for each operation of the vectors.
pub trait Subject {
    /// Offers a new object.
    fn add(&mut self, object: Arc<Obj>) -> Outcome;
    /// Offers a changed object.
    fn update(&mut self, object: Arc<Obj>) -> Outcome;
    /// Offers a deletion.
    fn delete(&mut self, object: DeltaObject<Obj>) -> Outcome;
    /// Offers a whole list.
    fn replace(&mut self, list: Vec<Arc<Obj>>) -> Outcome;
    /// Queues what is known.
    fn resync(&mut self) -> Outcome;
    /// Puts deltas back.
    fn add_if_not_present(&mut self, deltas: Deltas<Obj>) -> Outcome;
    /// Closes the queue.
    fn close(&mut self) -> Outcome;
    /// Whether the first list has been handled.
    fn has_synced(&mut self) -> bool;
    /// Whether the queue was closed.
    fn is_closed(&mut self) -> bool;
    /// Pending keys, in any order.
    fn list_keys(&mut self) -> Vec<String>;
    /// Newest deltas of the pending keys, in any order.
    fn list(&mut self) -> Vec<Delta<Obj>>;
    /// The key of what has one.
    ///
    /// # Errors
    /// When it has none.
    fn key_of(&mut self, source: KeySource<'_, Obj>) -> Result<String, KeyError>;
    /// Pending deltas of what has a key.
    ///
    /// # Errors
    /// When it has none.
    fn get(&mut self, source: KeySource<'_, Obj>) -> Result<Option<Deltas<Obj>>, KeyError>;
    /// Pending deltas of a key.
    fn get_by_key(&mut self, key: &str) -> Option<Deltas<Obj>>;
    /// Takes the next key and does `action` to it. Waits for nothing that will not come: an open
    /// queue with nothing in it answers [`Outcome::Empty`].
    fn pop(&mut self, action: Action) -> Answer;
}

/// The methods of a [`Subject`] that its queue has under the same name: all but `pop`.
macro_rules! delegate_to_queue {
    ($queue:ident) => {
        fn add(&mut self, object: Arc<Obj>) -> Outcome {
            self.$queue.add(object).into()
        }

        fn update(&mut self, object: Arc<Obj>) -> Outcome {
            self.$queue.update(object).into()
        }

        fn delete(&mut self, object: DeltaObject<Obj>) -> Outcome {
            self.$queue.delete(object).into()
        }

        fn replace(&mut self, list: Vec<Arc<Obj>>) -> Outcome {
            self.$queue.replace(list, "").into()
        }

        fn resync(&mut self) -> Outcome {
            self.$queue.resync();
            Outcome::Ok
        }

        fn add_if_not_present(&mut self, deltas: Deltas<Obj>) -> Outcome {
            self.$queue.add_if_not_present(deltas).into()
        }

        fn close(&mut self) -> Outcome {
            self.$queue.close();
            Outcome::Ok
        }

        fn has_synced(&mut self) -> bool {
            self.$queue.has_synced()
        }

        fn is_closed(&mut self) -> bool {
            self.$queue.is_closed()
        }

        fn list_keys(&mut self) -> Vec<String> {
            self.$queue.list_keys()
        }

        fn list(&mut self) -> Vec<Delta<Obj>> {
            self.$queue.list()
        }

        fn key_of(&mut self, source: KeySource<'_, Obj>) -> Result<String, KeyError> {
            self.$queue.key_of(source)
        }

        fn get(&mut self, source: KeySource<'_, Obj>) -> Result<Option<Deltas<Obj>>, KeyError> {
            self.$queue.get(source)
        }

        fn get_by_key(&mut self, key: &str) -> Option<Deltas<Obj>> {
            self.$queue.get_by_key(key)
        }
    };
}
pub(super) use delegate_to_queue;

/// A subject, and the name of the way it holds what is known.
pub type NamedSubject = (&'static str, Box<dyn Subject>);

/// An engine that vectors can be replayed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// This project's.
    Deltafifo,
    /// The classic design.
    Mutex,
    /// The plain model that the others are compared with in tests and by fuzzing.
    Model,
}

/// Names a way of holding what is known.
const OWN_STORE: &str = "own store";
const TRAIT_OBJECT: &str = "known-objects trait";
const NOTHING_KNOWN: &str = "nothing known";

impl Engine {
    /// Fresh queues for a case. One with a store is tried in two ways: over the engine's own
    /// store, and over one behind the trait.
    ///
    /// # Errors
    /// When a known object has no key.
    pub fn subjects(self, config: &Config) -> Result<Vec<NamedSubject>, BoxError> {
        let ways: &[_] = match (config.known, self) {
            (KnownKind::None, _) => &[NOTHING_KNOWN],
            (KnownKind::Static, _) => &[TRAIT_OBJECT],
            (KnownKind::Store, Engine::Model) => &[OWN_STORE],
            (KnownKind::Store, _) => &[OWN_STORE, TRAIT_OBJECT],
        };
        let subject = |way| -> Result<Box<dyn Subject>, BoxError> {
            let own_store = way == OWN_STORE;
            Ok(match self {
                Engine::Deltafifo => Box::new(FifoSubject::new(config, own_store)?),
                Engine::Mutex => Box::new(MutexSubject::new(config, own_store)?),
                Engine::Model => Box::new(ModelSubject::new(config)?),
            })
        };
        ways.iter().map(|&way| Ok((way, subject(way)?))).collect()
    }
}

/// Reads the metadata of the vectors' objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjMeta;

impl Meta<Obj> for ObjMeta {
    fn namespace<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(&object.ns)
    }

    fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(&object.name)
    }

    fn version<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(&object.rv)
    }
}

// What the results of the engines are called in the vectors.

impl From<OfferError> for Outcome {
    fn from(error: OfferError) -> Self {
        match error {
            OfferError::Key(_) => Outcome::KeyError,
            _ => Outcome::Error,
        }
    }
}

impl From<RelistError> for Outcome {
    fn from(error: RelistError) -> Self {
        match error {
            RelistError::Refused { source, .. } => source.into(),
            _ => Outcome::Error,
        }
    }
}

impl From<KeyError> for Outcome {
    fn from(_: KeyError) -> Self {
        Outcome::KeyError
    }
}

impl<T, E: Into<Outcome>> From<Result<T, E>> for Outcome {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(Into::into, |_| Outcome::Ok)
    }
}
