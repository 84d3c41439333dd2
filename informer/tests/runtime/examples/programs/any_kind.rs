//! Watches the objects of a kind that is chosen at run time. (Shape: `dynamic_watcher`.)

use futures_util::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};

use super::runtime::{WatchStreamExt, watcher};

pub async fn run(
    client: Client,
    types: ApiResource,
    say: impl Fn(String),
) -> Result<(), watcher::Error> {
    let all = Api::<DynamicObject>::all_with(client, &types);
    let mut objects = watcher(all, watcher::Config::default()).applied_objects().boxed();
    while let Some(object) = objects.try_next().await? {
        let place = object.namespace().unwrap_or_else(|| "the cluster".into());
        say(format!("{} {} in {place}", types.kind, object.name_any()));
        tracing::trace!("{object:?}");
    }
    Ok(())
}
