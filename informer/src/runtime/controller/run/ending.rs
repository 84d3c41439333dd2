//! The end of a controller.

use std::mem;
use std::panic::resume_unwind;
use std::time::Duration;

use deltafifo::Labels;
use futures_util::StreamExt;
use kube::Resource;
use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio::time::sleep;

use super::super::work::drop_in_task;
use super::ControllerRun;
use crate::KubeMeta;
use crate::reflector::Decodable;
use crate::runtime::form::Form;

/// The longest wait for tasks that have been aborted. A panic of one of them unwinds in less time.
pub(super) const UNWINDING: Duration = Duration::from_secs(5);

impl<F, E> ControllerRun<F, E>
where
    F: Form<Object: Resource<DynamicType: Clone>> + Decodable,
    KubeMeta: Labels<F>,
    E: Send + 'static,
{
    /// Ends all tasks, and waits until none is being polled. A task that panics on another thread
    /// drops the writer of a store before its panic can be seen: the panic is then resumed here, as
    /// the cause of the drop.
    ///
    /// The wait ends after [`UNWINDING`] and at a forced end, because a stream of the user may
    /// block in its poll, which nothing can cancel.
    pub(super) async fn end_tasks(&mut self) {
        let mut tasks = mem::take(&mut self.started.tasks);
        self.started.end();
        tasks.abort_all();
        let longest = sleep(UNWINDING);
        tokio::pin!(longest);
        loop {
            let ended = tokio::select! {
                biased;
                Some(()) = self.forceful.next() => return,
                ended = tasks.join_next() => ended,
                () = &mut longest => return,
            };
            match ended {
                Some(Ok(())) => {}
                Some(Err(error)) => resume_panic(error),
                None => return,
            }
        }
    }
}

impl<F: Form, E: Send + 'static> Drop for ControllerRun<F, E> {
    /// Cancels the tasks. A further task drops their results, which may hold decoded objects.
    fn drop(&mut self) {
        self.work.abort_all();
        if !F::IS_OBJECT && Handle::try_current().is_ok() {
            drop_in_task(mem::take(&mut self.work));
        }
    }
}

/// Resumes the panic of a task in the task that polls the controller. Does nothing for a
/// cancelled task.
pub(super) fn resume_panic(with: JoinError) {
    if let Ok(panic) = with.try_into_panic() {
        resume_unwind(panic);
    }
}
