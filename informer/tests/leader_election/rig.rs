//! A rig: a server with leases, and replicas that campaign in tasks.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltafifo_informer::error_chain;
use deltafifo_informer::leader_election::{
    ElectionError, LeaderElector, LeaderElectorBuilder, LeaseLock, Term,
};
use deltafifo_testkit::{ApiServer, Resource, Verb};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::core::{ApiResource, discovery::Scope};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const HOUR: Duration = Duration::from_secs(60 * 60);

pub fn leases() -> Resource {
    Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced)
}

/// Returns a server with the lease of the manifest, which has no `spec`.
pub fn server() -> ApiServer {
    let server = ApiServer::builder().resource(leases()).resource(Resource::config_maps()).build();
    server.apply(lease(&json!(null))).unwrap();
    server
}

pub fn lease(spec: &Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": "shop", "name": "counter", "labels": { "app": "counter" } },
        "spec": spec,
    })
}

/// Returns the name of the holder in the lease, without the UUID that follows it there. Empty if
/// the lease has no holder.
pub fn holder(server: &ApiServer) -> String {
    let lease = server.get(&leases(), "shop", "counter").expect("there is a lease");
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    holder.split('_').next().unwrap_or_default().to_owned()
}

/// Returns the time of the last renewal in the lease.
pub fn renew_time(server: &ApiServer) -> Value {
    let lease = server.get(&leases(), "shop", "counter").expect("there is a lease");
    lease["spec"]["renewTime"].clone()
}

pub fn builder(server: &ApiServer, name: &str) -> LeaderElectorBuilder {
    builder_of(server.client(), name)
}

pub fn builder_of(client: Client, name: &str) -> LeaderElectorBuilder {
    LeaderElector::builder(client, LeaseLock::new("shop", "counter").identity(name))
}

/// A replica that campaigns until it is cancelled, killed or has lost its lease.
pub struct Replica {
    pub elector: LeaderElector,
    pub errors: Arc<Mutex<Vec<String>>>,
    terms: mpsc::UnboundedReceiver<Term>,
    cancel: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ElectionError>>,
}

impl Replica {
    /// Starts a replica that leads until its term ends.
    pub fn start(server: &ApiServer, name: &str) -> Self {
        Self::start_with(builder(server, name), false)
    }

    pub fn start_with(builder: LeaderElectorBuilder, campaigns_again: bool) -> Self {
        let (cancel, cancelled) = oneshot::channel::<()>();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&errors);
        let elector = builder
            .cancel_on(async {
                // If the sender is dropped, the test has ended.
                let _ = cancelled.await;
            })
            .on_error(move |error| reported.lock().unwrap().push(error_chain(error)))
            .build()
            .unwrap();
        let (sender, terms) = mpsc::unbounded_channel();
        let running = elector.clone();
        let task = tokio::spawn(async move {
            let lead = |term: Term| {
                // Without a receiver the test has ended.
                let _ = sender.send(term);
                pending()
            };
            if campaigns_again { running.run_again(lead).await } else { running.run(lead).await }
        });
        Self { elector, errors, terms, cancel: Some(cancel), task }
    }

    /// Waits until the replica leads. Returns its term.
    pub async fn term(&mut self) -> Term {
        timeout(HOUR, self.terms.recv()).await.expect("it leads").expect("it runs")
    }

    pub fn cancel(&mut self) {
        self.cancel.take().expect("it is cancelled once").send(()).expect("it runs");
    }

    /// Ends the replica without a release.
    pub async fn kill(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.is_err(), "it had ended before");
    }

    pub async fn ended(mut self) -> Result<(), ElectionError> {
        timeout(HOUR, &mut self.task).await.expect("it ends").expect("it does not panic")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the number of requests of a verb that the server has recorded.
pub fn count(server: &ApiServer, verb: Verb) -> usize {
    let requests = server.requests();
    requests.iter().filter(|request| request.verb() == verb).count()
}
