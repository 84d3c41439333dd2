//! Prints a table of events, of one object if asked. (Shape: `event_watcher`.)

use std::pin::pin;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client};

use super::runtime::{WatchStreamExt, watcher};

/// Says a line for each event. `regarding` is a kind and a name.
pub async fn run(client: Client, regarding: Option<(&str, &str)>, say: impl Fn(String)) {
    let mut config = watcher::Config::default();
    if let Some((kind, name)) = regarding {
        config = config.fields(&format!("regarding.kind={kind},regarding.name={name}"));
    }
    let incidents: Api<Event> = Api::default_namespaced(client);
    let mut incidents = pin!(watcher(incidents, config).default_backoff().applied_objects());
    while let Some(next) = incidents.next().await {
        match next {
            Ok(event) => {
                let object = event.regarding.as_ref().map(title).unwrap_or_default();
                let [reason, note] = [event.reason, event.note].map(Option::unwrap_or_default);
                say(format!("{reason:<10} {object:<20} {note}"));
            }
            Err(error) => say(format!("watch failed: {error:?}")),
        }
    }
}

fn title(object: &ObjectReference) -> String {
    let [kind, name] = [&object.kind, &object.name].map(|part| part.as_deref().unwrap_or("-"));
    format!("{kind} {name}")
}
