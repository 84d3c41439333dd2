//! The plain queue: a list that is searched from end to end for each answer.

use std::sync::Arc;

use super::Order;
use crate::Obj;

pub(super) struct QueuedObject {
    pub(super) object: Arc<Obj>,
    /// Whether the entry belongs to the initial population.
    pub(super) initial: bool,
}

/// The plain queue, which the real ones are compared with.
pub(super) struct Plain {
    order: Order,
    /// The queued entries, in order of arrival.
    pub(super) queued: Vec<QueuedObject>,
    /// The entries whose handlers run.
    pub(super) in_work: Vec<QueuedObject>,
    populated: bool,
    pub(super) closed: bool,
}

/// The reason why an operation is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoKey,
    Closed,
    NotFound,
}

impl Plain {
    pub(super) fn new(order: Order) -> Self {
        Self { order, queued: Vec::new(), in_work: Vec::new(), populated: false, closed: false }
    }

    /// Checks whether these objects can be queued.
    fn check(&self, objects: &[Arc<Obj>]) -> Result<(), Refusal> {
        if objects.iter().any(|object| object.name.is_empty()) {
            return Err(Refusal::NoKey);
        }
        if self.closed && self.order == Order::Least { Err(Refusal::Closed) } else { Ok(()) }
    }

    pub(super) fn put(&mut self, objects: Vec<Arc<Obj>>, keeps: bool) -> Result<(), Refusal> {
        self.check(&objects)?;
        self.populated = true;
        for object in objects {
            match self.queued.iter_mut().find(|entry| entry.object.name == object.name) {
                Some(_) if keeps => {}
                Some(entry) => entry.object = object,
                None => self.queued.push(QueuedObject { object, initial: false }),
            }
        }
        Ok(())
    }

    pub(super) fn replace(&mut self, list: Vec<Arc<Obj>>) -> Result<(), Refusal> {
        self.check(&list)?;
        let is_first = !self.populated;
        let before = std::mem::take(&mut self.queued);
        self.put(list, false)?;
        for entry in &mut self.queued {
            let was = before.iter().find(|was| was.object.name == entry.object.name);
            entry.initial = is_first || was.is_some_and(|was| was.initial);
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &str) -> Result<(), Refusal> {
        if key.is_empty() {
            return Err(Refusal::NoKey);
        }
        self.populated = true;
        let before = self.queued.len();
        self.queued.retain(|entry| entry.object.name != key);
        if self.queued.len() == before && self.order == Order::Least {
            Err(Refusal::NotFound)
        } else {
            Ok(())
        }
    }

    /// Removes and returns the first entry whose key has no running handler.
    pub(super) fn take(&mut self) -> Option<QueuedObject> {
        let is_free = |entry: &QueuedObject| {
            self.in_work.iter().all(|taken| taken.object.name != entry.object.name)
        };
        let line = self.queued.iter().enumerate().filter(|(_, entry)| is_free(entry));
        // `min_by_key` returns the first of several minima, which is the earliest.
        let (at, _) = line
            .min_by_key(|(_, entry)| if self.order == Order::Least { entry.object.n } else { 0 })?;
        Some(self.queued.remove(at))
    }

    pub(super) fn has_synced(&self) -> bool {
        self.populated && !self.queued.iter().chain(&self.in_work).any(|entry| entry.initial)
    }
}
