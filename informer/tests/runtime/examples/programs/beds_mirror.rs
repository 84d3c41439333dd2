//! Mirrors the beds of the garden in memory, and says which there are each time one is applied.
//! (Shape: `crd_reflector`.)

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use super::bed::Bed;
use super::runtime::{WatchStreamExt, reflector, watcher};

pub async fn run(
    client: Client,
    say: impl Fn(String) + Clone + Send + Sync + 'static,
) -> Result<(), watcher::Error> {
    let (reader, writer) = reflector::store::<Bed>();
    let beds: Api<Bed> = Api::default_namespaced(client);
    let mut applied = watcher(beds, watcher::Config::default().any_semantic())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .boxed();
    let say_all = say.clone();
    let reading = tokio::spawn(async move {
        reader.wait_until_ready().await.expect("the watch goes on");
        loop {
            let mut names: Vec<_> = reader.state().iter().map(|bed| bed.name_any()).collect();
            names.sort();
            say_all(format!("all: {}", names.join(" ")));
            sleep(Duration::from_secs(10)).await;
        }
    });
    while let Some(bed) = applied.try_next().await? {
        say(format!("{} grows {}", bed.name_any(), bed.spec.crop));
    }
    reading.abort();
    Ok(())
}
