//! Two controllers, of which the second maps the objects of the first kind through its own store.
//! An object that does not decode is skipped. A library reports what the controllers yield.
//! (Shape: stackable's zookeeper-operator.)
//!
//! The library takes kube's types. This project's types are converted, and kube's stay as they are:
//! these two lines are no change of imports.

#![allow(clippy::useless_conversion)] // Of kube's types.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, future};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::{Api, Client, Resource};

use super::runtime::controller::{Action, Controller};
use super::runtime::events::{Recorder, Reporter};
use super::runtime::reflector::ObjectRef;
use super::runtime::watcher;
use crate::wirings::kinds::{Page, Site};
use crate::wirings::library::report;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("object is invalid")]
    Invalid(#[source] InvalidObject),
}

pub struct Context {
    /// A reconciler of real objects has the client here.
    pub client: Client,
}

async fn reconcile_site(
    site: Arc<DeserializeGuard<Site>>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let site = site.0.as_ref().map_err(|invalid| Error::Invalid(invalid.clone()))?;
    tracing::debug!(title = site.spec.title, namespace = context.client.default_namespace());
    Ok(Action::await_change())
}

async fn reconcile_page(
    page: Arc<DeserializeGuard<Page>>,
    _context: Arc<Context>,
) -> Result<Action, Error> {
    page.0.as_ref().map_err(|invalid| Error::Invalid(invalid.clone()))?;
    Ok(Action::requeue(Duration::from_secs(3_600)))
}

fn error_policy<K>(_: Arc<DeserializeGuard<K>>, error: &Error, _: Arc<Context>) -> Action {
    match error {
        // Only a change of the object helps.
        Error::Invalid(_) => Action::await_change(),
    }
}

pub async fn run(
    client: Client,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
    say: impl Fn(String) + Clone,
) {
    let stop = stop.shared();
    let recorder = |name: &str| {
        let reporter = Reporter { controller: name.to_owned(), instance: None };
        Arc::new(Recorder::new(client.clone(), reporter))
    };
    let (site_recorder, page_recorder) = (recorder("sites"), recorder("pages"));
    let config = watcher::Config::default;

    let sites = Controller::new(Api::<DeserializeGuard<Site>>::all(client.clone()), config())
        .owns(Api::<DeserializeGuard<Service>>::all(client.clone()), config())
        .owns(Api::<DeserializeGuard<StatefulSet>>::all(client.clone()), config())
        .owns(Api::<DeserializeGuard<ConfigMap>>::all(client.clone()), config())
        .graceful_shutdown_on(stop.clone())
        .run(reconcile_site, error_policy, Arc::new(Context { client: client.clone() }))
        .for_each_concurrent(16, |outcome| {
            let (recorder, say) = (site_recorder.clone(), say.clone());
            let outcome = outcome.map(|(object, action)| (object, action.into()));
            let outcome = outcome.map_err(Into::into);
            async move { say(report(&recorder, "sites", &outcome).await) }
        });

    let pages = Controller::new(Api::<DeserializeGuard<Page>>::all(client.clone()), config());
    let store = pages.store();
    let pages = pages
        .owns(Api::<DeserializeGuard<ConfigMap>>::all(client.clone()), config())
        .watches(Api::<DeserializeGuard<Site>>::all(client.clone()), config(), move |site| {
            store
                .state()
                .into_iter()
                .filter(move |page| {
                    let Ok(page) = &page.0 else { return false };
                    let site = site.meta();
                    page.metadata.namespace == site.namespace
                        && Some(&page.spec.site) == site.name.as_ref()
                })
                .map(|page| ObjectRef::from_obj(&*page))
        })
        .graceful_shutdown_on(stop)
        .run(reconcile_page, error_policy, Arc::new(Context { client: client.clone() }))
        .for_each_concurrent(16, |outcome| {
            let (recorder, say) = (page_recorder.clone(), say.clone());
            let outcome = outcome.map(|(object, action)| (object, action.into()));
            let outcome = outcome.map_err(Into::into);
            async move { say(report(&recorder, "pages", &outcome).await) }
        });
    future::join(sites, pages).await;
}
