//! The decoding of the objects of an item before its work begins.

use deltafifo::Labels;
use kube::Resource;
use tracing::Span;

use super::super::deleted;
use super::super::key::StoreKey;
use super::super::permitted::Permit;
use super::super::work::{Done, Ended, Outcome, Work};
use super::ControllerRun;
use crate::KubeMeta;
use crate::reflector::Decodable;
use crate::runtime::form::Form;
use crate::workqueue::Item;

impl<F, E> ControllerRun<F, E>
where
    F: Form<Object: Resource<DynamicType: Clone>> + Decodable,
    KubeMeta: Labels<F>,
    E: Send + 'static,
{
    /// Decodes the objects of an item in a task, or on a thread that may block if one of them is
    /// large.
    pub(super) fn decode(&mut self, item: Item<StoreKey>, work: Work<F>) {
        let is_large = match &work {
            Work::Reconcile(object, _) => object.is_large(),
            Work::Deletions(deletions) => deletions.iter().any(|(deletion, _)| deletion.is_large()),
        };
        let span = Span::current();
        let decode = move || span.in_scope(|| Some(Self::decoded(item, work).pause()));
        if is_large {
            self.work.spawn_blocking(decode);
        } else {
            self.work.spawn(async { decode() });
        }
    }

    /// Decodes the objects of an item. Costs nothing if they are stored decoded.
    pub(super) fn decoded(item: Item<StoreKey>, work: Work<F>) -> Ended<F::Object, E, Permit> {
        match work {
            Work::Reconcile(object, permit) => match object.decoded() {
                Ok(object) => Ended::Decoded(item, Work::Reconcile(object, permit)),
                Err(error) => {
                    let outcome = Outcome::NotDecoded(error);
                    Ended::Call(Done { item, outcome, span: Span::none() })
                }
            },
            Work::Deletions(deletions) => {
                let decode = |(deletion, permit)| (deleted::decoded(item.key(), deletion), permit);
                let decoded = deletions.into_iter().map(decode).collect();
                Ended::Decoded(item, Work::Deletions(decoded))
            }
        }
    }
}
