//! The queue of `deltafifo_classic` as a queue under test: client-go's design, with one mutex.

use std::sync::Arc;

use deltafifo::{BoxError, Delta, DeltaObject, Deltas, KeyError, KeyFunc, KeySource, ProcessError};
use deltafifo_classic::{MutexFifo, MutexStore, Popped, Verdict};

use super::known::KnownSet;
use super::subject::{ObjMeta, Subject, delegate_to_queue};
use super::{Action, Answer, Config, KnownKind, Obj, Outcome};

/// A queue of `deltafifo_classic`, and the set of known objects to which pops are applied, if
/// there is one.
pub(super) struct MutexSubject {
    fifo: MutexFifo<Obj, ObjMeta>,
    applied: Option<Arc<KnownSet>>,
}

impl MutexSubject {
    pub(super) fn new(config: &Config, own_store: bool) -> Result<Self, BoxError> {
        let keys = KeyFunc::meta_namespace(ObjMeta);
        let mut applied = None;
        let mut builder = if own_store {
            let store = MutexStore::new(keys);
            for object in &config.known_objects {
                store.add(Arc::new(object.clone()))?;
            }
            MutexFifo::over(Arc::new(store)).ordered_walks(true)
        } else if config.known == KnownKind::None {
            MutexFifo::builder(keys)
        } else {
            let known = Arc::new(KnownSet::new(&config.known_objects)?);
            applied = (config.known == KnownKind::Store).then(|| known.clone());
            MutexFifo::builder(keys).known_objects(known)
        };
        if let Some(transform) = config.transform.clone() {
            builder = builder.transformer(move |object| transform.apply(object));
        }
        Ok(Self { fifo: builder.emit_replaced(config.emit_replaced).build(), applied })
    }

    fn apply(&self, item: &Popped<Obj>) {
        if let Some(store) = self.fifo.store() {
            store.apply(item, |_| {});
        }
        if let Some(known) = &self.applied {
            known.apply(item.key(), item.deltas());
        }
    }
}

impl Subject for MutexSubject {
    delegate_to_queue!(fifo);

    fn pop(&mut self, action: Action) -> Answer {
        let mut popped_item = None;
        let handler = |item: &Popped<Obj>| {
            popped_item =
                Some((item.deltas().iter().map(Into::into).collect(), item.is_in_initial_list()));
            match action {
                Action::Apply => {
                    self.apply(item);
                    Verdict::Done
                }
                Action::Ignore => Verdict::Done,
                Action::Fail => Verdict::Failed(()),
                Action::Requeue => Verdict::Requeue(None),
                Action::RequeueErr => Verdict::Requeue(Some(())),
            }
        };
        // A pop of an open, empty queue would block.
        let popped = if self.fifo.is_closed() {
            Some(self.fifo.pop(handler))
        } else {
            self.fifo.try_pop(handler)
        };
        let result = match popped {
            None => Outcome::Empty,
            Some(Ok(())) => Outcome::Ok,
            Some(Err(ProcessError::Closed(_))) => Outcome::Closed,
            Some(Err(_)) => Outcome::ProcessError,
        };
        match popped_item {
            None => Answer::Result { result },
            Some((deltas, is_in_initial_list)) => {
                Answer::Popped { deltas, is_in_initial_list, result }
            }
        }
    }
}
