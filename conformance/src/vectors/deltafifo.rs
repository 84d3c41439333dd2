//! This project's queue as a queue under test.

use std::sync::Arc;

use deltafifo::{
    BoxError, Delta, DeltaFifo, DeltaObject, Deltas, Indexer, KeyError, KeyFunc, KeySource, Popped,
};

use super::known::KnownSet;
use super::subject::{ObjMeta, Subject, delegate_to_queue};
use super::{Action, Answer, Config, KnownKind, Obj, Outcome};

/// The store to which a pop with the action `apply` applies the deltas.
enum Applied {
    Nothing,
    FusedStore,
    Beside(Arc<KnownSet>),
}

/// A queue of this project that is under test.
pub(super) struct FifoSubject {
    fifo: DeltaFifo<Obj, ObjMeta>,
    applied: Applied,
}

impl FifoSubject {
    pub(super) fn new(config: &Config, own_store: bool) -> Result<Self, BoxError> {
        let keys = KeyFunc::meta_namespace(ObjMeta);
        let (mut builder, applied) = if own_store {
            let store = Indexer::builder(keys).build()?;
            for object in &config.known_objects {
                store.add(Arc::new(object.clone()))?;
            }
            (DeltaFifo::over(store), Applied::FusedStore)
        } else if config.known == KnownKind::None {
            (DeltaFifo::builder(keys), Applied::Nothing)
        } else {
            let known = Arc::new(KnownSet::new(&config.known_objects)?);
            let builder = DeltaFifo::builder(keys).known_objects(known.clone());
            (
                builder,
                if config.known == KnownKind::Store {
                    Applied::Beside(known)
                } else {
                    Applied::Nothing
                },
            )
        };
        if let Some(transform) = config.transform.clone() {
            builder = builder.transformer(move |object| transform.apply(object));
        }
        let fifo = builder.emit_replaced(config.emit_replaced).ordered_walks(true).build();
        Ok(Self { fifo, applied })
    }

    fn apply(&self, mut item: Popped<'_, Obj, ObjMeta>) -> Outcome {
        match &self.applied {
            Applied::FusedStore => {
                return item.apply(|_| {}).map_or(Outcome::Error, |()| Outcome::Ok);
            }
            Applied::Beside(known) => known.apply(item.key(), item.deltas()),
            Applied::Nothing => {}
        }
        item.done();
        Outcome::Ok
    }
}

impl Subject for FifoSubject {
    delegate_to_queue!(fifo);

    fn pop(&mut self, action: Action) -> Answer {
        // A pop of an open, empty queue would block.
        let item = if self.fifo.is_closed() {
            self.fifo.pop().map_err(|_| Outcome::Closed)
        } else {
            self.fifo.try_pop().ok_or(Outcome::Empty)
        };
        let item = match item {
            Ok(item) => item,
            Err(result) => return Answer::Result { result },
        };
        let deltas = item.deltas().iter().map(Into::into).collect();
        let is_in_initial_list = item.is_in_initial_list();
        let result = match action {
            Action::Apply => self.apply(item),
            Action::Ignore => {
                item.done();
                Outcome::Ok
            }
            Action::Fail => {
                item.done();
                Outcome::ProcessError
            }
            Action::Requeue => {
                item.requeue();
                Outcome::Ok
            }
            Action::RequeueErr => {
                item.requeue();
                Outcome::ProcessError
            }
        };
        Answer::Popped { deltas, is_in_initial_list, result }
    }
}
