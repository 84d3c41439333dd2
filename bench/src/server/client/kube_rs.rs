//! The client of kube-rs: its watcher and reflector, with a handler that counts the objects.

use std::pin::pin;

use deltafifo::BoxError;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};

use super::cut::Cut;
use super::tally::{HandlerCounts, Tally};
use super::watching::Watching;

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
        tokio::spawn(follow(reflector(writer, events), tally.clone()));
        Self { store, tally }
    }
}

async fn follow(events: impl Stream<Item = watcher::Result<Event<ConfigMap>>>, tally: Tally) {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::InitApply(map) | Event::Apply(map)) => tally.record(&map),
            Ok(Event::InitDone) => tally.list_ended(),
            Ok(Event::Init | Event::Delete(_)) => {}
            Err(error) => eprintln!("{error}"),
        }
    }
}

impl Watching for KubeRs {
    async fn first_list(&self) -> Result<(), BoxError> {
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
