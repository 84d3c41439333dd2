//! Tests of the end of a controller one of whose tasks blocks in its poll.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::mpsc;

use futures_util::{FutureExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::oneshot;
use tokio::time::advance;

use super::ending::UNWINDING;
use super::*;
use crate::runtime::reflector::store;

/// Returns a controller whose store lost its writer before its initial list, and one of whose tasks
/// blocks until the sender is dropped.
async fn blocked(
    forced: oneshot::Receiver<()>,
) -> (ControllerRun<ConfigMap, Infallible>, mpsc::Sender<()>) {
    let (reader, _) = store();
    let mut controller = Controller::<ConfigMap>::for_stream(stream::pending(), reader);
    controller.forceful.push(forced.map(drop).boxed());
    let Ok(mut running) = ControllerRun::start(controller) else { panic!("the controller starts") };
    let (release, released) = mpsc::channel();
    let (begins, has_begun) = oneshot::channel();
    running.started.tasks.spawn_blocking(move || {
        let _ = begins.send(());
        let _ = released.recv();
    });
    has_begun.await.expect("the task begins");
    (running, release)
}

fn is_writer_dropped(step: Option<StreamStep<ConfigMap, Infallible>>) -> bool {
    let Some(StreamStep::Failed(Error::RunnerError(error))) = step else { return false };
    matches!(error, RunnerError::WriterDropped { .. })
}

#[tokio::test(start_paused = true)]
async fn blocking_task_delays_the_end_for_a_bounded_time() {
    let (_force, forced) = oneshot::channel();
    let (mut running, _release) = blocked(forced).await;
    {
        let mut next = pin!(running.next());
        assert!(next.as_mut().now_or_never().is_none(), "the task could be about to panic");
        advance(UNWINDING).await;
        assert!(is_writer_dropped(next.now_or_never()));
    }
    assert!(matches!(running.next().now_or_never(), Some(StreamStep::End)));
}

#[tokio::test(start_paused = true)]
async fn forced_end_does_not_wait_for_a_blocking_task() {
    let (force, forced) = oneshot::channel();
    let (mut running, _release) = blocked(forced).await;
    let mut next = pin!(running.next());
    assert!(next.as_mut().now_or_never().is_none());
    force.send(()).expect("the controller runs");
    assert!(is_writer_dropped(next.now_or_never()));
}
