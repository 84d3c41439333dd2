//! The queues under test: the trait of the operations that the runner needs, and the engines that
//! implement it.

use std::sync::Arc;

use deltafifo::{
    BoxError, Delta, DeltaObject, Deltas, KeyError, KeySource, Meta, OfferError, RelistError,
};

use super::{
    Action, Answer, Config, KnownKind, Obj, Outcome, deltafifo::FifoSubject, mutex::MutexSubject,
    oracle_model::ModelSubject,
};

/// A queue under test, with one method for each operation of the vectors.
pub trait Subject {
    /// Offers a new object.
    fn add(&mut self, object: Arc<Obj>) -> Outcome;
    /// Offers a changed object.
    fn update(&mut self, object: Arc<Obj>) -> Outcome;
    /// Offers a deletion.
    fn delete(&mut self, object: DeltaObject<Obj>) -> Outcome;
    /// Offers a whole list.
    fn replace(&mut self, list: Vec<Arc<Obj>>) -> Outcome;
    /// Queues a Sync of every known object.
    fn resync(&mut self) -> Outcome;
    /// Puts popped deltas back.
    fn add_if_not_present(&mut self, deltas: Deltas<Obj>) -> Outcome;
    /// Closes the queue.
    fn close(&mut self) -> Outcome;
    /// Returns whether the initial list has been handled.
    fn has_synced(&mut self) -> bool;
    /// Returns whether the queue was closed.
    fn is_closed(&mut self) -> bool;
    /// Returns the pending keys, in any order.
    fn list_keys(&mut self) -> Vec<String>;
    /// Returns the newest delta of each pending key, in any order.
    fn list(&mut self) -> Vec<Delta<Obj>>;
    /// Returns the key of an object, tombstone or other source.
    ///
    /// # Errors
    /// If the source has no key.
    fn key_of(&mut self, source: KeySource<'_, Obj>) -> Result<String, KeyError>;
    /// Returns the pending deltas of a source's key.
    ///
    /// # Errors
    /// If the source has no key.
    fn get(&mut self, source: KeySource<'_, Obj>) -> Result<Option<Deltas<Obj>>, KeyError>;
    /// Returns the pending deltas of a key.
    fn get_by_key(&mut self, key: &str) -> Option<Deltas<Obj>>;
    /// Pops the next key and runs `action` on it. If the queue is open and empty, so that the pop
    /// would block for ever, returns an answer with [`Outcome::Empty`].
    fn pop(&mut self, action: Action) -> Answer;
}

/// Implements the methods of a [`Subject`], except `pop`, by calls of the queue's methods of the
/// same names.
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

/// A queue under test, and the name of its kind of known objects.
pub type NamedSubject = (&'static str, Box<dyn Subject>);

/// An engine on which vectors can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// This project's queue.
    Deltafifo,
    /// The queue of `deltafifo_classic`: client-go's design, with one mutex.
    Mutex,
    /// The oracle's model, with which tests and the fuzzer compare the other engines.
    Model,
}

/// The name for known objects that are in the engine's own store.
const OWN_STORE: &str = "own store";
/// The name for known objects that an engine reads through the trait `KnownObjects`.
const TRAIT_OBJECT: &str = "known-objects trait";
/// The name for a queue without known objects.
const NOTHING_KNOWN: &str = "nothing known";

impl Engine {
    /// Creates fresh queues for a case. A case with a store is run twice: with the engine's own
    /// store, and with a store behind the trait `KnownObjects`.
    ///
    /// # Errors
    /// If a known object has no key.
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

/// The metadata accessor of the vectors' objects.
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

// Results of the engines as outcomes of the vectors.

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
