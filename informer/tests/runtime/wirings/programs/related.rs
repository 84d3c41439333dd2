//! A controller with several owned and watched kinds, and a configuration. Mappers that a function
//! returns look up both the main objects and objects of a reflected kind. (Shape: stackable's
//! secret-operator.)

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, future};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PartialObjectMeta;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource, ResourceExt};

use super::runtime::controller::{self, Action};
use super::runtime::reflector::{self, Lookup, ObjectRef};
use super::runtime::{Controller, WatchStreamExt as _, watcher};
use crate::wirings::kinds::{Site, Theme};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("site does not decode")]
    Invalid,
    #[error("site has no theme")]
    NoTheme,
}

async fn reconcile(site: Arc<DeserializeGuard<Site>>, _: Arc<()>) -> Result<Action, Error> {
    let site = site.0.as_ref().map_err(|_| Error::Invalid)?;
    assert_ne!(site.spec.title, "panic", "a defect of the reconciler");
    site.spec.theme.as_ref().ok_or(Error::NoTheme)?;
    Ok(Action::requeue(Duration::from_secs(3_600)))
}

fn error_policy(_: Arc<DeserializeGuard<Site>>, error: &Error, _: Arc<()>) -> Action {
    match error {
        Error::Invalid => Action::await_change(),
        Error::NoTheme => Action::requeue(Duration::from_secs(5)),
    }
}

/// Returns a mapper of an object to the sites whose theme refers to it.
fn with_theme_that<D: Resource>(
    refers_to: impl Copy + Fn(&Theme, &D) -> bool,
    sites: reflector::Store<DeserializeGuard<Site>>,
    themes: reflector::Store<DeserializeGuard<Theme>>,
) -> impl Fn(D) -> Vec<ObjectRef<DeserializeGuard<Site>>> {
    move |dependency| {
        let themes: HashSet<ObjectRef<Theme>> = themes
            .state()
            .into_iter()
            .filter_map(|theme| {
                let theme = theme.0.as_ref().ok()?;
                refers_to(theme, &dependency).then(|| theme.to_object_ref(()))
            })
            .collect();
        sites
            .state()
            .into_iter()
            .filter(|site| {
                let theme = site.0.as_ref().ok().and_then(|site| site.spec.theme.as_ref());
                theme.is_some_and(|theme| themes.contains(&ObjectRef::new(theme)))
            })
            .map(|site| ObjectRef::from_obj(&*site))
            .collect()
    }
}

pub async fn run<F>(client: Client, stop: F, say: impl Fn(String))
where
    F: Future<Output = ()> + Send + Sync + 'static,
{
    let (themes, writer) = reflector::store();
    let all = watcher::Config::default;
    let controller = Controller::new(Api::<DeserializeGuard<Site>>::all(client.clone()), all());
    let sites = controller.store();
    controller
        .watches_stream(
            watcher(Api::<DeserializeGuard<Theme>>::all(client.clone()), all())
                .reflect(writer)
                .touched_objects(),
            {
                let sites = sites.clone();
                move |theme| {
                    let has_theme = move |site: &Site| site.spec.theme == theme.meta().name;
                    sites
                        .state()
                        .into_iter()
                        .filter(move |site| site.0.as_ref().is_ok_and(&has_theme))
                        .map(|site| ObjectRef::from_obj(&*site))
                }
            },
        )
        .owns(Api::<PartialObjectMeta<ConfigMap>>::all(client.clone()), all())
        .owns(Api::<PartialObjectMeta<Secret>>::all(client.clone()), all().labels("part-of=sites"))
        .watches(
            Api::<PartialObjectMeta<ConfigMap>>::all(client.clone()),
            all(),
            with_theme_that(
                |theme, map: &PartialObjectMeta<ConfigMap>| theme.spec.palette == map.name_any(),
                sites.clone(),
                themes.clone(),
            ),
        )
        .watches(
            Api::<PartialObjectMeta<Secret>>::all(client),
            all().labels("part-of=themes").page_size(50),
            with_theme_that(
                |theme, secret: &PartialObjectMeta<Secret>| {
                    secret.labels().get("theme") == Some(&theme.name_any())
                },
                sites,
                themes,
            ),
        )
        .with_config(controller::Config::default().concurrency(4))
        .graceful_shutdown_on(stop)
        .run(reconcile, error_policy, Arc::new(()))
        .for_each(|done| {
            say(match done {
                Ok((site, _)) => site.name,
                Err(controller::Error::ReconcilerFailed(error, site)) => {
                    format!("{}: {error}", site.name)
                }
                Err(controller::Error::QueueError(error)) => format!("watch: {error}"),
                Err(error) => format!("other: {error}"),
            });
            future::ready(())
        })
        .await;
}
