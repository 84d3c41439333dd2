//! Two replicas that campaign for a lease. Prints which of them leads, while one is stopped
//! without a release of the lease and the other one releases it.
//!
//!     cargo run -p deltafifo-informer --example leader_election -- --kubeconfig ~/.kube/config
//!     cargo run -p deltafifo-informer --example leader_election   # simulated cluster
//!
//! It writes the lease `deltafifo-example` in the namespace, and deletes it at the end. If it is
//! stopped before, the next run deletes it.

#[path = "cluster/access.rs"]
mod access;
#[path = "cluster/signal.rs"]
mod signal;

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use access::Access;
use clap::Parser;
use deltafifo_informer::leader_election::{ElectionError, LeaderElector, LeaseLock, Term};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::core::{ApiResource, discovery::Scope};
use kube::{Api, Client};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const NAME: &str = "deltafifo-example";

/// Runs two replicas of which one leads.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The namespace of the lease.
    #[arg(long, default_value = "default")]
    namespace: String,
}

/// Returns the server of the simulated cluster.
pub(crate) fn simulated() -> ApiServer {
    let leases = Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced);
    ApiServer::builder().resource(leases).build()
}

/// A replica in a task.
struct Replica {
    task: JoinHandle<Result<(), ElectionError>>,
    stop: oneshot::Sender<()>,
}

/// Starts a replica, which sends its name when it leads.
fn start(
    client: &Client,
    namespace: &str,
    name: &'static str,
    leads: &mpsc::UnboundedSender<&'static str>,
) -> Result<Replica, Box<dyn Error>> {
    let (stop, stopped) = oneshot::channel::<()>();
    let lock = LeaseLock::new(namespace, NAME).identity(name);
    let elector = LeaderElector::builder(client.clone(), lock)
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(2))
        .retry_period(Duration::from_millis(400))
        .cancel_on(async {
            // A replica whose sender is dropped is not asked to stop.
            if stopped.await.is_err() {
                pending::<()>().await;
            }
        })
        .build()?;
    let leads = leads.clone();
    let task = tokio::spawn(async move {
        let lead = |term: Term| async move {
            println!("{name} leads, in term {}", term.transitions());
            // Fails if the example has ended.
            let _ = leads.send(name);
            pending::<()>().await;
        };
        elector.run(lead).await
    });
    Ok(Replica { task, stop })
}

pub(crate) async fn run(args: Args, simulated: &ApiServer) -> Result<(), Box<dyn Error>> {
    let client = args.access.client().await?.unwrap_or_else(|| simulated.client());
    let namespace = &args.namespace;
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    // An example that was stopped has left its lease.
    if leases.get_opt(NAME).await?.is_some() {
        leases.delete(NAME, &DeleteParams::default()).await?;
    }
    // A lease without a holder is taken at once.
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
    let free = Lease { metadata, spec: Some(LeaseSpec::default()) };
    leases.create(&PostParams::default(), &free).await?;

    let (leads, mut leaders) = mpsc::unbounded_channel();
    let mut next = async || leaders.recv().await.ok_or("no replica runs");
    let mut leader = ("ann", start(&client, namespace, "ann", &leads)?);
    next().await?;
    let mut standby = ("bob", start(&client, namespace, "bob", &leads)?);
    tokio::time::sleep(Duration::from_secs(1)).await;

    println!("{} is stopped without a word", leader.0);
    leader.1.task.abort();
    let stopped = Instant::now();
    next().await?;
    println!("that took {:.1} s", stopped.elapsed().as_secs_f32());

    leader = standby;
    standby = ("eve", start(&client, namespace, "eve", &leads)?);
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("{} is asked to stop, and releases the lease", leader.0);
    let stopped = Instant::now();
    // Fails if the replica has ended.
    let _ = leader.1.stop.send(());
    next().await?;
    println!("that took {} ms", stopped.elapsed().as_millis());
    leader.1.task.await??;

    let _ = standby.1.stop.send(());
    standby.1.task.await??;
    leases.delete(NAME, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let simulated = simulated();
    tokio::select! {
        ended = run(Args::parse(), &simulated) => ended,
        stopped = signal::stopped() => Ok(stopped?),
    }
}
