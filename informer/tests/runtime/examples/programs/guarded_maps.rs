//! Watches `ConfigMap`s that must have a certain key, and goes on if one lacks it. (Shape:
//! `errorbounded_configmap_watcher`.)

use std::borrow::Cow;

use futures_util::TryStreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::Deserialize;

use super::runtime::reflector::ObjectRef;
use super::runtime::{WatchStreamExt, watcher};

/// A `ConfigMap` with the key `season`.
#[derive(Clone, Debug, Deserialize)]
struct Almanac {
    metadata: ObjectMeta,
    data: Seasons,
}

#[derive(Clone, Debug, Deserialize)]
struct Seasons {
    season: String,
}

impl Resource for Almanac {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        ConfigMap::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        ConfigMap::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        ConfigMap::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        ConfigMap::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

pub async fn run(
    client: Client,
    streaming: bool,
    say: impl Fn(String),
) -> Result<(), watcher::Error> {
    let almanacs = Api::<DeserializeGuard<Almanac>>::default_namespaced(client);
    let mut config = watcher::Config::default();
    if streaming {
        config = config.streaming_lists();
    }
    watcher(almanacs, config)
        .applied_objects()
        .default_backoff()
        .try_for_each(|almanac| {
            let name = ObjectRef::from_obj(&almanac);
            match almanac.0 {
                Ok(almanac) => say(format!("{}: {}", name.name, almanac.data.season)),
                Err(invalid) => say(format!("{}: {}", name.name, invalid.error)),
            }
            async { Ok(()) }
        })
        .await
}
