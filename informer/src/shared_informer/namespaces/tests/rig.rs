//! A rig: a set of namespaces, their queue, and scripts of their lists and watches.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::{Change, Indexer, KeyFunc};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::queue::{Queue, Refusing};
use crate::KubeMeta;
use crate::lister_watcher::{Listed, ListerWatcher, PageMeta, RequestError, Scripted};
use crate::reflector::{Decodable, ReflectorBuilder};
use crate::shared_informer::error::{InformerError, OnError};
use crate::shared_informer::namespaces::{NamespaceReflectors, Namespaces, NamespacesPlan, Set};
use crate::shared_informer::source::Availability;

/// A time that is longer than any backoff.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// A set of namespaces, the queue that they are fed to, and the namespaces whose errors were
/// reported. By default the lister-watcher of each namespace is [`green`]: its list has the object
/// `green/a`, and its watch sends no events.
pub(super) struct Rig {
    pub(super) namespaces: Namespaces,
    pub(super) queue: Arc<Refusing>,
    pub(super) reflectors: Arc<NamespaceReflectors<ConfigMap>>,
    pub(super) availability: watch::Receiver<Availability>,
    pub(super) reported: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    pub(super) fn start(names: &[&str]) -> Self {
        Self::of(names, |_| green())
    }

    pub(super) fn of(
        names: &[&str],
        source: impl Fn(&str) -> Scripted + Send + Sync + 'static,
    ) -> Self {
        Self::of_set(Namespaces::new(names.iter().copied()).unwrap(), source)
    }

    /// Starts an informer whose set follows an informer of namespaces.
    pub(super) fn following(
        names: &[&str],
        source: impl Fn(&str) -> Scripted + Send + Sync + 'static,
    ) -> Self {
        let names = names.iter().map(|&name| Arc::from(name)).collect();
        Self::of_set(
            Namespaces::of(Set { names, follows_informer: true, ..Set::default() }),
            source,
        )
    }

    fn of_set(
        namespaces: Namespaces,
        source: impl Fn(&str) -> Scripted + Send + Sync + 'static,
    ) -> Self {
        Self::with(namespaces, source, |reflector| reflector.watch_list(false))
    }

    pub(super) fn with<S: ListerWatcher>(
        namespaces: Namespaces,
        source: impl Fn(&str) -> S + Send + Sync + 'static,
        settings: impl FnOnce(ReflectorBuilder<ConfigMap>) -> ReflectorBuilder<ConfigMap>,
    ) -> Self {
        let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
        let queue = Queue::over(store).track_applied(true).build();
        let queue = Arc::new(Refusing::new(queue));
        let (refuses, availability) = watch::channel(Availability::Unknown);
        let source = Box::new(move |name: &str| Box::new(source(name)) as Box<dyn ListerWatcher>);
        let plan = NamespacesPlan::new(namespaces.clone(), source);
        let reported = Arc::new(Mutex::new(Vec::new()));
        let reports = Arc::clone(&reported);
        let on_error = OnError(Arc::new(move |error| {
            let InformerError::Namespace { namespace, .. } = error else { panic!("{error}") };
            reports.lock().push((*namespace).to_owned());
        }));
        let reflectors = plan.into_reflectors(
            queue.clone(),
            "maps".to_owned(),
            Box::new(ConfigMap::decoder),
            settings,
            on_error,
            refuses,
        );
        let reflectors = Arc::new(reflectors);
        let running = reflectors.clone();
        tokio::spawn(async move { running.run().await });
        Self { namespaces, queue, reflectors, availability, reported }
    }

    /// Handles all changes of the queue until the test ends.
    pub(super) fn consume(&self) {
        let queue = self.queue.queue.clone();
        tokio::spawn(async move {
            loop {
                queue.pop_async().await.unwrap().apply(|_| ()).unwrap();
            }
        });
    }

    /// Returns the next change as `+key` or `-key`.
    pub(super) async fn next(&self) -> String {
        let popped = timeout(LONG, self.queue.queue.pop_async()).await;
        let mut popped = popped.expect("nothing is queued").unwrap();
        let mut sign = "";
        popped
            .apply(|change| {
                sign = if matches!(change, Change::Deleted { .. }) { "-" } else { "+" };
            })
            .unwrap();
        format!("{sign}{}", popped.key())
    }
}

pub(super) fn green() -> Scripted {
    listed("green", 5).watch_on(Vec::new())
}

/// Returns the object `a` of a namespace.
pub(super) fn raw(namespace: &str, version: u64) -> String {
    let meta = format!(r#""namespace":"{namespace}","name":"a","resourceVersion":"{version}""#);
    format!(r#"{{"metadata":{{{meta}}}}}"#)
}

/// Returns a list at `version` of the object `a`.
pub(super) fn items(namespace: &str, version: u64) -> [Result<Listed, RequestError>; 2] {
    let page = PageMeta { resource_version: version.to_string(), ..PageMeta::default() };
    [Ok(Listed::Meta(page)), Ok(Listed::Items(vec![raw(namespace, version).into()]))]
}

/// Returns a script with a list at `version` of the object `a`.
pub(super) fn listed(namespace: &str, version: u64) -> Scripted {
    Scripted::new().list(items(namespace, version))
}

/// Lets all tasks run that can.
pub(super) async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Returns the error of a watch whose version is too old.
pub(super) fn expired() -> RequestError {
    let status = Status::failure("as the test wants", "Expired").with_code(410).boxed();
    RequestError::Status { status, retry_after: None }
}
