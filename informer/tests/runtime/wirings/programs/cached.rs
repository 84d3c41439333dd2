//! A cache of objects of a kind that is known at run time, which drops fields before it stores the
//! objects, and knows when it last changed. (Shape: kubewarden's policy evaluator.)

use std::hash::Hash;

use futures_util::future::ready;
use futures_util::{Stream, StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::runtime::WatchStreamExt;
use super::runtime::reflector::store::{self, Writer};
use super::runtime::watcher;

/// Applies the events of a stream to a store, and records when the last one was applied.
fn recorded<K, S>(
    mut writer: store::Writer<K>,
    stream: S,
    changed: watch::Sender<Instant>,
) -> impl Stream<Item = S::Item>
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
    S: Stream<Item = watcher::Result<watcher::Event<K>>>,
{
    stream.inspect_ok(move |event| {
        changed.send_replace(Instant::now());
        writer.apply_watcher_event(event);
    })
}

pub struct Cache {
    pub reader: super::runtime::reflector::Store<DynamicObject>,
    changed: watch::Receiver<Instant>,
    filling: tokio::task::JoinHandle<()>,
}

impl Cache {
    /// Creates a cache and fills it in a task. Waits until it is complete.
    pub async fn create(
        client: Client,
        types: ApiResource,
        namespace: Option<&str>,
        label_selector: Option<String>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let api = match namespace {
            Some(namespace) => Api::<DynamicObject>::namespaced_with(client, namespace, &types),
            None => Api::<DynamicObject>::all_with(client, &types),
        };
        let writer = Writer::new(types);
        let reader = writer.as_reader();
        let config = watcher::Config { label_selector, ..Default::default() };
        let trimmed = watcher(api, config).map_ok(|event| event.modify(trim));
        let (sender, changed) = watch::channel(Instant::now());
        let events = recorded(writer, trimmed, sender);
        let filling = tokio::spawn(async move {
            let seen = events.default_backoff().touched_objects();
            seen.for_each(|object| {
                match object {
                    Ok(object) => tracing::debug!(?object, "seen"),
                    Err(error) => tracing::warn!(?error, "watch failed"),
                }
                ready(())
            })
            .await;
        });
        reader.wait_until_ready().await?;
        Ok(Self { reader, changed, filling })
    }

    pub fn last_change(&self) -> Instant {
        *self.changed.borrow()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.filling.abort();
    }
}

fn trim(object: &mut DynamicObject) {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove("last-applied");
    if let Some(spec) = object.data.get_mut("spec") {
        spec.take();
    }
}
