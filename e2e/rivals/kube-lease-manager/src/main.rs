//! A candidate with kube-lease-manager 0.13.1, whose writers check its channel before each
//! write.

#[path = "../../candidate.rs"]
mod candidate;

use std::error::Error;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube_lease_manager::{LeaseManagerBuilder, LeaseParams};

use candidate::{Arguments, NAMESPACE};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read();
    let (duration, grace) = (arguments.lease_duration.as_secs(), arguments.grace().as_secs());
    let manager = LeaseManagerBuilder::new(arguments.client()?, &arguments.lease)
        .with_namespace(NAMESPACE)
        .with_parameters(LeaseParams::new(arguments.identity(), duration, grace))
        .build()
        .await?;
    let (mut leads, _task) = manager.watch().await;
    leads.wait_for(|leads| *leads).await?;
    let leases: Api<Lease> = Api::namespaced(arguments.client()?, NAMESPACE);
    let lease = leases.get(&arguments.lease).await?;
    arguments.lead(&lease, || *leads.borrow()).await?;
    candidate::lost()
}
