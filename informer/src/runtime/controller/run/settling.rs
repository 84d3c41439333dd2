//! The settling of a call: the next reconcile of its key, and the item that the stream yields.

use std::sync::Arc;

use deltafifo::Labels;
use kube::Resource;

use super::super::Action;
use super::super::error::{Error, RunnerError};
use super::super::key::StoreKey;
use super::super::metrics::Metrics;
use super::super::reason::Reason;
use super::super::work::{Done, Outcome, drop_in_task};
use super::{ControllerRun, Yielded, reconcile_span};
use crate::KubeMeta;
use crate::reflector::Decodable;
use crate::runtime::form::Form;

impl<F, E> ControllerRun<F, E>
where
    F: Form<Object: Resource<DynamicType: Clone>> + Decodable,
    KubeMeta: Labels<F>,
    E: Send + 'static,
{
    /// Requests the next reconcile of the key, if one is due, and releases the item. Returns the
    /// result that the stream yields for the call.
    pub(super) fn settle(
        &self,
        Done { item, outcome, span }: Done<F::Object, E>,
        error_policy: impl FnOnce(Arc<F::Object>, &E) -> Action,
    ) -> Option<Yielded<F::Object, E>> {
        // The error policy is user code, and its logs should carry this object's span.
        let _entered = span.enter();
        let (key, priority) = (item.key(), item.priority());
        match outcome {
            Outcome::Reconciled(object_ref, action) => {
                self.schedule.forget(key);
                if let Some(after) = action.requeue_after {
                    self.schedule.request_after(
                        key.clone(),
                        priority,
                        after,
                        Reason::ReconcilerRequestedRetry,
                    );
                }
                Some(Ok((object_ref, action)))
            }
            Outcome::Failed(object_ref, object, error) => {
                let after = error_policy(object.clone(), &error).requeue_after;
                self.schedule.request_after_error(key.clone(), priority, after);
                if !F::IS_OBJECT {
                    // As in `reconcile`, this may be the last handle.
                    drop_in_task(object);
                }
                Some(Err(Error::ReconcilerFailed(error, Box::new(object_ref.erase()))))
            }
            Outcome::Deleted => {
                self.request_if_stored(key, priority);
                None
            }
            Outcome::Lost => {
                self.schedule.forget(key);
                None
            }
            Outcome::NotDecoded(source) => {
                self.metrics.record(Metrics::not_decoded);
                let object = self.reference(key);
                if let Some(policy) = &self.decode_error_policy {
                    let span = reconcile_span(&item, &object);
                    let after = span.in_scope(|| policy(object.clone(), &*source)).requeue_after;
                    self.schedule.request_after_error(key.clone(), priority, after);
                } else {
                    self.schedule.request_after_failure(key.clone(), priority, Reason::NotDecoded);
                }
                let object = Box::new(object.erase());
                Some(Err(RunnerError::NotDecoded { object, source }.into()))
            }
            Outcome::Panicked { message, again } => {
                if again {
                    self.schedule.request_after_failure(key.clone(), priority, Reason::Panicked);
                } else {
                    self.request_if_stored(key, priority);
                }
                let object = Box::new(self.reference(key).erase());
                Some(Err(RunnerError::Panicked { object, message }.into()))
            }
        }
    }

    /// Requests a reconcile if there is an object with this key. A request that led to a deletion
    /// handler may have been for a new object with the same name.
    fn request_if_stored(&self, key: &StoreKey, priority: i32) {
        if self.store.get_by_key(key).is_some() {
            self.schedule.request(key.clone(), priority, Reason::ObjectUpdated);
        }
    }
}
