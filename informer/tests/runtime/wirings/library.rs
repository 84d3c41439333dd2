//! A function as libraries for operators have it: it names the types of kube's runtime, and so it
//! takes a controller's items only after a conversion.

use std::error::Error;

use kube::Resource;
use kube::runtime::controller::{self, Action};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::reflector::ObjectRef;

/// Records the outcome of a reconcile. A failure is also published as an event of the object.
/// Returns the line that a log would get.
pub async fn report<K, R, Q>(
    recorder: &Recorder,
    name: &str,
    outcome: &Result<(ObjectRef<K>, Action), controller::Error<R, Q>>,
) -> String
where
    K: Resource,
    R: Error,
    Q: Error,
{
    match outcome {
        Ok((object, action)) if *action == Action::await_change() => {
            format!("{name}: {} is done", object.name)
        }
        Ok((object, _)) => format!("{name}: {} is done for now", object.name),
        Err(controller::Error::ReconcilerFailed(error, object)) => {
            let event = Event {
                type_: EventType::Warning,
                reason: "Failed".to_owned(),
                note: Some(error.to_string()),
                action: "Reconcile".to_owned(),
                secondary: None,
            };
            let published = recorder.publish(&event, &(*object.clone()).into()).await.is_ok();
            format!("{name}: {} failed: {error}, published: {published}", object.name)
        }
        Err(controller::Error::QueueError(error)) => format!("{name}: watch failed: {error}"),
        Err(other) => format!("{name}: {other}"),
    }
}
