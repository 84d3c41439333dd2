//! The client of this project: a shared informer of typed or of compact objects, and one handler
//! that counts. The client's name selects whether the list is streamed, and whether managed fields
//! are left out.

use std::time::Duration;

use deltafifo::{BoxError, Meta};
use deltafifo_informer::reflector::Decodable;
use deltafifo_informer::shared_informer::{Notification, Registration};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use tokio::time::sleep;

use super::Watching;
use super::cut::Cut;
use super::tally::{HandlerCounts, Tally};
use crate::server::client_name::ClientName;

pub(super) struct Ours<T: Send + Sync + 'static>
where
    KubeMeta: Meta<T>,
{
    informer: SharedInformer<T>,
    handler: Registration<T>,
    tally: Tally,
}

impl<T: Decodable> Ours<T>
where
    KubeMeta: Meta<T>,
{
    /// Starts the informer in a task.
    pub fn start(client: Client, namespace: &str, name: ClientName) -> Result<Self, BoxError> {
        let source = KubeListerWatcher::new::<ConfigMap>(client, &(), Some(namespace));
        let informer = SharedInformer::<T>::builder(source)
            .reflector(move |reflector| {
                let reflector = reflector.watch_list(name.is_streamed());
                if name.is_without() {
                    reflector.without(&["metadata", "managedFields"])
                } else {
                    reflector
                }
            })
            .on_error(|error| eprintln!("{error}"))
            .build()?;
        let (tally, running) = (Tally::default(), informer.clone());
        let handler_tally = tally.clone();
        let handler = informer.add_event_handler(move |notification: Notification<T>| {
            if let Notification::Added { new, .. } | Notification::Updated { new, .. } =
                &notification
            {
                handler_tally.record(KubeMeta.version(new));
            }
        })?;
        tokio::spawn(async move { running.run().await });
        Ok(Self { informer, handler, tally })
    }
}

impl<T: Send + Sync + 'static> Watching for Ours<T>
where
    KubeMeta: Meta<T>,
{
    async fn initial_list(&self) -> Result<(), BoxError> {
        Ok(self.handler.wait_for_sync().await?)
    }

    async fn relist(&self, cut: &Cut, changed: usize) -> Result<(), BoxError> {
        let before = self.informer.last_sync_resource_version();
        self.tally.relist(changed);
        cut.expire();
        self.tally.until(HandlerCounts::has_all_changes).await;
        // The list may continue after the last change, and there is no notification of its end.
        // Polling wakes the process, which costs CPU time, but the pause after the end of the list
        // does not.
        while self.informer.last_sync_resource_version() == before {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn counts(&self) -> (HandlerCounts, usize) {
        (self.tally.counts(), self.informer.store().len())
    }
}
