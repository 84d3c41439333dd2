//! The engine of kube-rs' watcher and reflector.

use std::future::ready;
use std::hint::black_box;
use std::sync::Arc;

use deltafifo_informer::KubeMeta;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use tokio::sync::watch;

use super::server::ListServer;
use super::{CacheEngine, ChildError};
use crate::data::with_key;
use crate::digest::Digest;

pub(super) struct KubeRsCache {
    store: Store<Pod>,
    /// The number of complete lists.
    lists: watch::Receiver<u64>,
}

impl KubeRsCache {
    /// Starts the watcher in a task. The watcher lists any version, in one page.
    pub(super) fn start(server: &ListServer) -> Self {
        let (store, writer) = reflector::store();
        let config = watcher::Config::default().any_semantic();
        let events = watcher(Api::all(server.client()), config).default_backoff();
        let (sender, lists) = watch::channel(0);
        tokio::spawn(reflector(writer, events).for_each(move |event| {
            match event {
                Ok(Event::InitDone) => sender.send_modify(|lists| *lists += 1),
                // The error of the watch that ends before the second list.
                Ok(_) | Err(watcher::Error::WatchError(_)) => {}
                Err(error) => eprintln!("{error}"),
            }
            ready(())
        }));
        Self { store, lists }
    }

    fn pod(&self, key: &str) -> Option<Arc<Pod>> {
        let (namespace, name) = key.split_once('/')?;
        self.store.get(&ObjectRef::new(name).within(namespace))
    }
}

impl CacheEngine for KubeRsCache {
    async fn listed(&self, list: u64) -> Result<(), ChildError> {
        self.lists.clone().wait_for(|lists| *lists >= list).await?;
        Ok(())
    }

    fn keys(&self) -> Vec<String> {
        let key = |pod: &Arc<Pod>| with_key(&KubeMeta, &**pod, str::to_owned);
        self.store.state().iter().map(key).collect()
    }

    fn get(&self, key: &str) -> bool {
        black_box(self.pod(key)).is_some()
    }

    fn get_header(&self, key: &str) -> bool {
        let pod = self.pod(key);
        let metadata = pod.as_ref().map(|pod| &pod.metadata);
        black_box(metadata.map(|meta| (&meta.name, &meta.uid, &meta.resource_version)));
        let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
        black_box(labels.and_then(|labels| labels.get("app")));
        pod.is_some()
    }

    fn digest(&self) -> Digest {
        Digest::of(&KubeMeta, self.store.state())
    }
}
