//! A controller whose objects have a finalizer, a status that a server-side apply writes, and
//! events. (Shape: controller-rs.)

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, future};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::runtime::controller::{Action, Controller};
use super::runtime::events::{Event, EventType, Recorder, Reporter};
use super::runtime::finalizer::{Event as Finalizer, finalizer};
use super::runtime::watcher::Config;
use crate::wirings::kinds::Site;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("request failed")]
    Kube(#[from] kube::Error),
    // Boxed, because the error of the finalizer contains this one.
    #[error("finalizer failed")]
    Finalizer(#[source] Box<super::runtime::finalizer::Error<Error>>),
    #[error("{0} is no title")]
    Title(String),
}

type Result<T, E = Error> = std::result::Result<T, E>;

pub struct Context {
    client: Client,
    recorder: Recorder,
    say: Box<dyn Fn(String) + Send + Sync>,
}

async fn reconcile(site: Arc<Site>, context: Arc<Context>) -> Result<Action> {
    let sites =
        Api::<Site>::namespaced(context.client.clone(), &site.namespace().unwrap_or_default());
    finalizer(&sites, "sites.example/cleanup", site, |event| async {
        match event {
            Finalizer::Apply(site) => publish(&site, context).await,
            Finalizer::Cleanup(site) => withdraw(&site, context).await,
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

fn error_policy(site: Arc<Site>, error: &Error, context: Arc<Context>) -> Action {
    let causes = iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let causes: Vec<_> = causes.map(ToString::to_string).collect();
    (context.say)(format!("{}: {}", site.name_any(), causes.join(": ")));
    Action::requeue(Duration::from_secs(5 * 60))
}

async fn publish(site: &Site, context: Arc<Context>) -> Result<Action> {
    if site.spec.title == "untitled" {
        return Err(Error::Title(site.spec.title.clone()));
    }
    let sites =
        Api::<Site>::namespaced(context.client.clone(), &site.namespace().unwrap_or_default());
    let status = Patch::Apply(json!({
        "apiVersion": "sites.example/v1",
        "kind": "Site",
        "metadata": { "name": site.name_any() },
        "status": { "published": site.spec.title },
    }));
    let manager = PatchParams::apply("publisher").force();
    sites.patch_status(&site.name_any(), &manager, &status).await?;
    (context.say)(format!("{} is published", site.name_any()));
    Ok(Action::requeue(Duration::from_secs(5 * 60)))
}

async fn withdraw(site: &Site, context: Arc<Context>) -> Result<Action> {
    let event = Event {
        type_: EventType::Normal,
        reason: "Withdrawn".into(),
        note: Some(format!("{} is withdrawn", site.name_any())),
        action: "Withdraw".into(),
        secondary: None,
    };
    context.recorder.publish(&event, &site.object_ref(&())).await?;
    (context.say)(format!("{} is withdrawn", site.name_any()));
    Ok(Action::await_change())
}

pub async fn run(client: Client, say: impl Fn(String) + Send + Sync + 'static) {
    let sites = Api::<Site>::all(client.clone());
    if let Err(error) = sites.list(&ListParams::default().limit(1)).await {
        say(format!("sites cannot be listed, is the kind installed? {error}"));
        return;
    }
    let recorder = Recorder::new(client.clone(), Reporter::from("publisher"));
    let context = Arc::new(Context { client, recorder, say: Box::new(say) });
    Controller::new(sites, Config::default().any_semantic())
        .shutdown_on_signal()
        .run(reconcile, error_policy, context)
        .filter_map(|done| async move { std::result::Result::ok(done) })
        .for_each(|_| future::ready(()))
        .await;
}
