//! The scenario of informers of several namespaces, whose account has rights only by role
//! bindings. The binding in one namespace is deleted, and a restart of the API server then cuts all
//! watches. Later the binding is created again.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::BoxError;
use deltafifo_informer::lister_watcher::RequestError;
use deltafifo_informer::reflector::Backoff;
use deltafifo_informer::shared_informer::{InformerError, Namespaces};
use deltafifo_informer::{KubeListerWatcher, ReflectorError, SharedInformer};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Ended, Outcome, Setting};
use crate::servers::{LIMITED, Options, Servers};
use crate::wait::until;

/// The longest time that an informer may take to follow a change. The API server takes some seconds
/// to notice a new role binding.
const FOLLOWING: Duration = Duration::from_secs(30);
/// The longest time that an informer may take, after the restart of the API server, to follow a
/// change in the namespace whose binding was not deleted.
const UNAFFECTED: Duration = Duration::from_secs(5);
/// The name of the role and its binding in each namespace.
const ROLE: &str = "read-maps";

pub async fn run(setting: &Setting) -> Ended {
    let mut servers = Servers::start(setting, Options { rbac: true, ..Options::default() }).await?;
    let cluster = ClusterClient(servers.client());
    for namespace in ["blue", "green", "red"] {
        cluster.create_namespace(namespace).await?;
    }
    for namespace in ["blue", "green"] {
        cluster.create_role(namespace).await?;
        cluster.bind(namespace).await?;
        cluster.write(namespace, "a", 1).await?;
    }
    let limited = servers.limited_client()?;
    let namespaces = Namespaces::new(["blue", "green"])?;
    let informer = Running::start(&limited, &namespaces)?;
    informer.becomes(&["blue/a=1", "green/a=1"]).await?;
    until("the first sync", FOLLOWING, || informer.informer.has_synced()).await?;

    // The account has no rights in the namespace red.
    let optional = Namespaces::new(["blue", "red"])?.optional();
    let optional = Running::start(&limited, &optional)?;
    optional.becomes(&["blue/a=1"]).await?;
    until("a sync without red", FOLLOWING, || optional.informer.has_synced()).await?;
    until("the error of red", FOLLOWING, || optional.forbidden() == ["red"]).await?;

    cluster.unbind("green").await?;
    servers.kill_api().await?;
    servers.start_api().await?;
    let back = Instant::now();
    cluster.write("blue", "a", 2).await?;
    cluster.write("green", "a", 2).await?;
    informer.becomes(&["blue/a=2", "green/a=1"]).await?;
    let unaffected = back.elapsed();
    if unaffected > UNAFFECTED {
        return Err(format!("blue took {unaffected:?}, beside a forbidden green").into());
    }
    // An API server that has just started may forbid blue, too, until it knows the bindings.
    let is_forbidden = || informer.forbidden().iter().any(|namespace| namespace == "green");
    until("the error of green", FOLLOWING, is_forbidden).await?;
    informer.is_still(&["blue/a=2", "green/a=1"])?;

    cluster.bind("green").await?;
    let bound = Instant::now();
    informer.becomes(&["blue/a=2", "green/a=2"]).await?;
    let mended = bound.elapsed();

    namespaces.remove("green");
    informer.becomes(&["blue/a=2"]).await?;
    cluster.write("green", "b", 3).await?;
    cluster.write("blue", "b", 3).await?;
    informer.becomes(&["blue/a=2", "blue/b=3"]).await?;
    namespaces.add("green")?;
    informer.becomes(&["blue/a=2", "blue/b=3", "green/a=2", "green/b=3"]).await?;
    optional.becomes(&["blue/a=2", "blue/b=3"]).await?;
    Ok(Outcome::Held(format!(
        "blue followed {:.1} s after the restart beside a forbidden green, which mended {:.1} s after its binding",
        unaffected.as_secs_f64(),
        mended.as_secs_f64()
    )))
}

/// A running informer, and the namespaces that it reported as forbidden. Dropping the value stops
/// it.
struct Running {
    informer: SharedInformer<ConfigMap>,
    forbidden: Arc<Mutex<Vec<String>>>,
    run: JoinHandle<()>,
}

impl Running {
    fn start(client: &Client, namespaces: &Namespaces) -> Result<Self, BoxError> {
        let all = KubeListerWatcher::new::<ConfigMap>(client.clone(), &(), None);
        let forbidden = Arc::<Mutex<Vec<String>>>::default();
        let names = Arc::clone(&forbidden);
        let source = move |namespace: &str| all.in_namespace(namespace);
        let (first, most, reset) =
            (Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(120));
        let informer = SharedInformer::in_namespaces(namespaces, source)
            .reflector(move |reflector| reflector.backoff(Backoff::new(first, most, reset)))
            .on_error(move |error| {
                let mut names = names.lock();
                if let Some(namespace) = forbidden_namespace(error)
                    && !names.iter().any(|other| other == namespace)
                {
                    names.push(namespace.to_owned());
                }
            })
            .build()?;
        let running = informer.clone();
        let run = tokio::spawn(async move {
            // `run` fails only if the informer is already running.
            let _ = running.run().await;
        });
        Ok(Self { informer, forbidden, run })
    }

    fn forbidden(&self) -> Vec<String> {
        self.forbidden.lock().clone()
    }

    /// Returns `namespace/name=data` of each stored object, in order.
    fn stored(&self) -> Vec<String> {
        // Skips the config map with certificates that the API server creates in every namespace.
        let ours = |map: &Arc<ConfigMap>| map.data.as_ref().is_some_and(|data| data.len() == 1);
        let shown = |map: &Arc<ConfigMap>| {
            let data = map.data.as_ref().and_then(|data| data.get("data"));
            let namespace = map.namespace().unwrap_or_default();
            data.map(|data| format!("{namespace}/{}={data}", map.name_any()))
        };
        let list = self.informer.store().list();
        let mut stored: Vec<_> = list.iter().filter(|map| ours(map)).filter_map(shown).collect();
        stored.sort();
        stored
    }

    /// Waits until the store has exactly these objects.
    async fn becomes(&self, expected: &[&str]) -> Result<(), BoxError> {
        let condition = format!("a store with {expected:?}");
        let reached = until(&condition, FOLLOWING, || self.stored() == expected).await;
        reached.map_err(|error| format!("{error}; the store has {:?}", self.stored()).into())
    }

    fn is_still(&self, expected: &[&str]) -> Result<(), BoxError> {
        let stored = self.stored();
        if stored == expected {
            return Ok(());
        }
        Err(format!("the store has {stored:?} instead of {expected:?}").into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.run.abort();
    }
}

fn forbidden_namespace<'e>(error: &InformerError<'e>) -> Option<&'e str> {
    let InformerError::Namespace { namespace, error } = error else { return None };
    let (ReflectorError::List(request) | ReflectorError::Watch(request)) = error else {
        return None;
    };
    match request {
        RequestError::Status { status, .. } if status.code == 403 => Some(namespace),
        _ => None,
    }
}

/// A client of the API server with all permissions.
struct ClusterClient(Client);

impl ClusterClient {
    async fn create_namespace(&self, name: &str) -> Result<(), BoxError> {
        let namespace: Namespace = object(json!({ "metadata": { "name": name } }))?;
        Api::all(self.0.clone()).create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    async fn create_role(&self, namespace: &str) -> Result<(), BoxError> {
        let role: Role = object(json!({
            "metadata": { "name": ROLE },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"] }],
        }))?;
        Api::namespaced(self.0.clone(), namespace).create(&PostParams::default(), &role).await?;
        Ok(())
    }

    async fn bind(&self, namespace: &str) -> Result<(), BoxError> {
        let group = "rbac.authorization.k8s.io";
        let binding: RoleBinding = object(json!({
            "metadata": { "name": ROLE },
            "roleRef": { "apiGroup": group, "kind": "Role", "name": ROLE },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": LIMITED }],
        }))?;
        Api::namespaced(self.0.clone(), namespace).create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    async fn unbind(&self, namespace: &str) -> Result<(), BoxError> {
        let bindings = Api::<RoleBinding>::namespaced(self.0.clone(), namespace);
        bindings.delete(ROLE, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn write(&self, namespace: &str, name: &str, data: u32) -> Result<(), BoxError> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name }, "data": { "data": data.to_string() },
        });
        let maps = Api::<ConfigMap>::namespaced(self.0.clone(), namespace);
        maps.patch(name, &PatchParams::apply("e2e").force(), &Patch::Apply(map)).await?;
        Ok(())
    }
}

fn object<K: DeserializeOwned>(json: Value) -> Result<K, BoxError> {
    Ok(serde_json::from_value(json)?)
}
