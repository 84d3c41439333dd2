//! The state that a handler derives from its notifications.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use deltafifo_informer::shared_informer::{HandlerOptions, Notification, Subscription};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::timeout;

use super::rig::stored;
use crate::rig::{Informer, value};

/// A handler of an informer, and the state that it derives from its notifications.
pub struct View {
    informer: Informer,
    changes: Subscription<ConfigMap>,
    objects: BTreeMap<String, String>,
    seed: u64,
}

impl View {
    /// Adds a handler to an informer. The seed of the test's history is in the messages of failed
    /// assertions.
    pub fn of(informer: &Informer, seed: u64) -> Self {
        let changes = informer.subscribe(HandlerOptions::new()).unwrap();
        Self { informer: informer.clone(), changes, objects: BTreeMap::new(), seed }
    }

    /// Calls `check` with each notification that is delivered by now.
    pub fn catch_up(&mut self, check: impl Fn(&Notification<ConfigMap>)) {
        while let Some(change) = self.changes.next().now_or_never() {
            let change = change.expect("the informer runs");
            check(&change);
            self.record(&change);
        }
    }

    /// Waits until the store and the view have exactly these objects, as `key=value`, and the
    /// informer is synced. Calls `check` with each notification. Fails after `limit`.
    pub async fn wait_for(
        &mut self,
        expected: &[String],
        limit: Duration,
        check: impl Fn(&Notification<ConfigMap>),
    ) {
        let (informer, seed) = (self.informer.clone(), self.seed);
        let follow = async {
            while stored(&informer) != expected || self.shown() != expected {
                let change = self.changes.next().await.expect("the informer runs");
                check(&change);
                self.record(&change);
            }
            informer.wait_for_sync().await.unwrap();
        };
        if timeout(limit, pin!(follow)).await.is_err() {
            let status = informer.namespace_status();
            assert_eq!(stored(&informer), expected, "seed {seed}: {status:#?}");
            panic!(
                "seed {seed}: the handler or the sync is missing: {:?} {status:#?}",
                self.shown()
            );
        }
    }

    pub fn key(map: &ConfigMap) -> String {
        let meta = &map.metadata;
        format!("{}/{}", meta.namespace.as_ref().unwrap(), meta.name.as_ref().unwrap())
    }

    fn record(&mut self, notification: &Notification<ConfigMap>) {
        let key = Self::key;
        match notification {
            Notification::Added { new, .. } => {
                let before = self.objects.insert(key(new), value(new).to_owned());
                assert_eq!(before, None, "{} is added twice", key(new));
            }
            Notification::Updated { old, new, .. } => {
                let before = self.objects.insert(key(new), value(new).to_owned());
                assert_eq!(
                    before.as_deref(),
                    Some(value(old)),
                    "an update must follow the last state"
                );
            }
            Notification::Deleted { old, .. } => {
                assert_eq!(self.objects.remove(&key(old)).as_deref(), Some(value(old)));
            }
            Notification::ResyncBegins | Notification::ResyncEnds => {}
        }
    }

    fn shown(&self) -> Vec<String> {
        self.objects.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}
