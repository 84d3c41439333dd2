//! Mirrors secrets, and says the names of their keys. (Shape: `secret_reflector`.)

use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use super::runtime::{WatchStreamExt, reflector, reflector::Store, watcher};

fn keys(secret: &Secret) -> String {
    let mut keys = Vec::new();
    for (key, value) in secret.data.iter().flatten() {
        let form = if std::str::from_utf8(&value.0).is_ok() { "text" } else { "bytes" };
        keys.push(format!("{key} ({form})"));
    }
    keys.join(", ")
}

fn say_periodically(reader: Store<Secret>, say: impl Fn(String) + Send + Sync + 'static) {
    tokio::spawn(async move {
        loop {
            let secrets = reader.state();
            let mut lines: Vec<_> = secrets
                .iter()
                .map(|secret| format!("stored {}: {}", secret.name_any(), keys(secret)))
                .collect();
            lines.sort();
            lines.into_iter().for_each(&say);
            sleep(Duration::from_secs(10)).await;
        }
    });
}

pub async fn run(
    client: Client,
    say: impl Fn(String) + Clone + Send + Sync + 'static,
) -> Result<(), watcher::Error> {
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let (reader, writer) = reflector::store::<Secret>();
    let reflected = reflector(writer, watcher(secrets, watcher::Config::default().timeout(20)));
    say_periodically(reader, say.clone());
    reflected
        .applied_objects()
        .try_for_each(|secret| {
            say(format!("applied {}", secret.name_any()));
            async { Ok(()) }
        })
        .await
}
