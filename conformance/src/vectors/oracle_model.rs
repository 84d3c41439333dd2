//! The oracle's model as a queue under test. The engines are compared with this model, so the
//! model itself must answer the vectors, too.

use std::sync::Arc;

use deltafifo::{BoxError, Delta, DeltaObject, Deltas, KeyError, KeySource};
use deltafifo_oracle::Model;

use super::known::KnownSet;
use super::subject::{Subject, delegate_to_queue};
use super::{Action, Answer, Config, KnownKind, Obj, Outcome};

/// A model that is under test, and whether popped deltas are applied to its known objects.
pub(super) struct ModelSubject {
    model: Model<Obj>,
    applies: bool,
}

impl ModelSubject {
    pub(super) fn new(config: &Config) -> Result<Self, BoxError> {
        // Only for the error: the other subjects reject the same objects.
        KnownSet::new(&config.known_objects)?;
        let known = config.known_objects.iter().cloned().map(Arc::new).collect();
        let mut model = Model::new(
            key_of,
            (config.known != KnownKind::None).then_some(known),
            config.emit_replaced,
        );
        if let Some(transform) = config.transform.clone() {
            model = model.transformer(move |object| transform.apply(object));
        }
        Ok(Self { model, applies: config.known == KnownKind::Store })
    }
}

fn key_of(object: &Obj) -> Option<String> {
    if object.name.is_empty() {
        return None;
    }
    Some(if object.ns.is_empty() {
        object.name.clone()
    } else {
        format!("{}/{}", object.ns, object.name)
    })
}

impl Subject for ModelSubject {
    delegate_to_queue!(model);

    fn pop(&mut self, action: Action) -> Answer {
        let Some(popped_item) = self.model.pop() else {
            return Answer::Result {
                result: if self.model.is_closed() { Outcome::Closed } else { Outcome::Empty },
            };
        };
        let deltas = popped_item.deltas.iter().map(Into::into).collect();
        let is_in_initial_list = popped_item.is_in_initial_list;
        if action == Action::Apply && self.applies {
            self.model.apply(&popped_item);
        }
        self.model.end(popped_item, matches!(action, Action::Requeue | Action::RequeueErr));
        let result = match action {
            Action::Apply | Action::Ignore | Action::Requeue => Outcome::Ok,
            Action::Fail | Action::RequeueErr => Outcome::ProcessError,
        };
        Answer::Popped { deltas, is_in_initial_list, result }
    }
}
