//! Records the requests of `kubectl` and of kube-rs: see `traffic`.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use deltafifo::BoxError;
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::TryStreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::finalizer;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource as _, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tower::Service;

use super::commands::Kubectl;
use super::recorded::map;
use super::traffic::Recording;

/// A test kit whose requests are recorded.
#[derive(Clone)]
struct Recorded {
    kit: ApiServer,
    recording: Arc<Mutex<Recording>>,
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl<B> Service<Request<B>> for Recorded
where
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { mut kit, recording } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            let name = recording.lock().request(&parts, &body)?;
            let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch="));
            let answer = kit.call(Request::from_parts(parts, Full::new(body))).await?;
            if is_watch {
                return Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()));
            }
            let (parts, body) = answer.into_parts();
            let body = body.collect().await?.to_bytes();
            if let Some(name) = name {
                recording.lock().answer(&name, parts.status.as_u16(), &body);
            }
            let body = Full::new(body).map_err(|never| match never {});
            Ok(Response::from_parts(parts, body.boxed_unsync()))
        })
    }
}

/// Runs the clients over a test kit, and writes their requests to a file.
pub async fn record(kubectl: &Path, file: &Path) -> Result<(), BoxError> {
    let kit = ApiServer::builder()
        .resources(Resource::known())
        .managed_fields(true)
        .controllers(true)
        .build();
    let recording: Arc<Mutex<Recording>> = Arc::default();
    let recorded = Recorded { kit, recording: recording.clone() };
    let begin = |by: &str| recording.lock().begin(Some(by.to_owned()));

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let accepting = tokio::spawn(accept(listener, recorded.clone()));
    let dir = tempfile::Builder::new().prefix("deltafifo-e2e-").tempdir()?;
    let kubectl = Kubectl::new(kubectl, dir.path());
    fs::write(kubectl.kubeconfig(), kubeconfig(&url).to_string())?;
    // The definition is not recorded: both servers have it when they get the recorded requests.
    kubectl.run_all(begin).await?;
    kube(Client::new(recorded, "default"), begin).await?;
    accepting.abort();
    let recording = std::mem::take(&mut *recording.lock());
    Ok(fs::write(file, recording.lines()?)?)
}

/// Returns a kubeconfig for a server at `url`.
fn kubeconfig(url: &str) -> serde_json::Value {
    json!({
        "kind": "Config", "apiVersion": "v1", "current-context": "e2e",
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        "clusters": [{ "name": "e2e", "cluster": { "server": url } }],
        "users": [{ "name": "e2e", "user": {} }],
    })
}

async fn accept(listener: TcpListener, recorded: Recorded) {
    while let Ok((stream, _)) = listener.accept().await {
        let service = TowerToHyperService::new(recorded.clone());
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // An error is the client's end of the connection.
        tokio::spawn(async move { drop(connection.await) });
    }
}

/// Makes calls of kube-rs. `begin` is called before each with its name.
async fn kube(client: Client, begin: impl Fn(&str)) -> Result<(), BoxError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "e2e");
    let make = |name: &str, value: &str| -> Result<ConfigMap, BoxError> {
        Ok(serde_json::from_value(map(name, &json!({ "k": value })))?)
    };
    let (post, list, delete) =
        (PostParams::default(), ListParams::default(), DeleteParams::default());
    let as_kube = PatchParams::apply("kube");

    begin("Api::create");
    maps.create(&post, &make("kube", "1")?).await?;
    begin("Api::get");
    let mut found = maps.get("kube").await?;
    begin("Api::replace");
    found.data = Some([("k".to_owned(), "2".to_owned())].into());
    maps.replace("kube", &post, &found).await?;
    begin("Api::replace of an old version");
    let refused = maps.replace("kube", &post, &found).await;
    refused.err().ok_or("the old version was accepted")?;
    begin("Api::patch with Patch::Apply");
    let patch = Patch::Apply(make("applied", "1")?);
    maps.patch("applied", &as_kube, &patch).await?;
    begin("Api::patch with Patch::Merge");
    let patch = Patch::Merge(json!({ "data": { "l": "1" } }));
    maps.patch("kube", &PatchParams::default(), &patch).await?;
    begin("Api::patch with Patch::Strategic");
    let patch = Patch::Strategic(json!({ "metadata": { "labels": { "app": "web" } } }));
    maps.patch("kube", &PatchParams::default(), &patch).await?;
    begin("Api::list");
    maps.list(&list).await?;
    begin("Api::list with labels");
    maps.list(&list.clone().labels("app=web").limit(1)).await?;
    begin("Api::list_metadata");
    maps.list_metadata(&list).await?;
    begin("Api::get_metadata");
    let known = maps.get_metadata("kube").await?;
    begin("Api::watch");
    let version = known.resource_version().unwrap_or_default();
    let mut watch = pin!(maps.watch(&WatchParams::default(), &version).await?);
    maps.patch("kube", &as_kube.clone().force(), &Patch::Apply(make("kube", "3")?)).await?;
    watch.try_next().await?.ok_or("the watch has ended")?;

    for (name, config) in [
        ("watcher", watcher::Config::default()),
        ("watcher with streamed lists", watcher::Config::default().streaming_lists()),
    ] {
        begin(name);
        let mut watcher = pin!(watcher(maps.clone(), config).applied_objects());
        for _ in 0..2 {
            watcher.try_next().await?.ok_or("the watcher has ended")?;
        }
        // Polled at the same time: a watcher opens its watch when it is polled after the list.
        let patch = Patch::Merge(json!({ "data": { "by": name } }));
        let params = PatchParams::default();
        let changed = async { Ok(maps.patch("kube", &params, &patch).await?) };
        let next =
            async { watcher.try_next().await?.ok_or_else(|| BoxError::from("it has ended")) };
        tokio::try_join!(next, changed)?;
    }

    begin("finalizer");
    let known = Arc::new(maps.get("kube").await?);
    let nothing = |_| async { Ok::<_, std::convert::Infallible>(Action::await_change()) };
    finalizer(&maps, "example.com/kube", known, nothing).await?;
    begin("finalizer after Api::delete");
    maps.delete("kube", &delete).await?;
    let known = Arc::new(maps.get("kube").await?);
    finalizer(&maps, "example.com/kube", known.clone(), nothing).await?;

    begin("Recorder::publish");
    let event = Event {
        type_: EventType::Normal,
        reason: "Recorded".to_owned(),
        note: Some("a note".to_owned()),
        action: "Record".to_owned(),
        secondary: None,
    };
    // Without an instance it would be the name of this machine.
    let reporter = Reporter { controller: "e2e".to_owned(), instance: Some("e2e".to_owned()) };
    Recorder::new(client, reporter).publish(&event, &known.object_ref(&())).await?;
    begin("Api::delete_collection");
    maps.delete_collection(&delete, &list).await?;
    Ok(())
}
