//! Deliberate defects of the tasks of a member, besides those of the protocol. The simulation must
//! find them. Compiled only for tests.

use std::cell::Cell;

thread_local! {
    /// The defect of the tasks that this thread runs, if a test has chosen one.
    pub(super) static CHOSEN: Cell<Option<TaskMutant>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskMutant {
    /// The client of a permit sends everything.
    ClientIsNotFenced,
    /// A reconcile continues when its permit is lost.
    WorkOutlivesPermit,
    /// A shard is owned before the stores have its objects.
    StoreIsNotFilled,
}

impl TaskMutant {
    pub(super) fn is_chosen(self) -> bool {
        CHOSEN.get() == Some(self)
    }
}
