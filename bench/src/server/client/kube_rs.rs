//! The client of kube-rs: its watcher and reflector, with a handler that counts the objects.

use std::future::ready;

use deltafifo::BoxError;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};

use super::Watching;
use super::cut::Cut;
use super::tally::{HandlerCounts, Tally};

pub(super) struct KubeRs {
    store: reflector::Store<ConfigMap>,
    tally: Tally,
}

impl KubeRs {
    /// Starts the watcher in a task.
    pub fn start(
        client: Client,
        namespace: &str,
        config: watcher::Config,
        is_without: bool,
    ) -> Self {
        let (store, writer) = reflector::store();
        let events = watcher(Api::namespaced(client, namespace), config).default_backoff();
        let events = events.modify(move |map: &mut ConfigMap| {
            if is_without {
                map.metadata.managed_fields = None;
            }
        });
        let tally = Tally::default();
        let handler_tally = tally.clone();
        tokio::spawn(reflector(writer, events).for_each(move |event| {
            match event {
                Ok(Event::InitApply(map) | Event::Apply(map)) => {
                    handler_tally.record(map.metadata.resource_version.as_deref());
                }
                Ok(Event::InitDone) => handler_tally.list_ended(),
                Ok(Event::Init | Event::Delete(_)) => {}
                Err(error) => eprintln!("{error}"),
            }
            ready(())
        }));
        Self { store, tally }
    }
}

impl Watching for KubeRs {
    async fn initial_list(&self) -> Result<(), BoxError> {
        self.tally.until(|counts| counts.lists > 0).await;
        Ok(())
    }

    async fn relist(&self, cut: &Cut, changed: usize) -> Result<(), BoxError> {
        self.tally.relist(changed);
        cut.expire();
        self.tally.until(|counts| counts.lists > 0 && counts.has_all_changes()).await;
        Ok(())
    }

    fn counts(&self) -> (HandlerCounts, usize) {
        (self.tally.counts(), self.store.len())
    }
}
