//! A candidate with kubert 0.25.0, whose writers check the claim before each write.

#[path = "../../candidate.rs"]
mod candidate;

use std::error::Error;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kubert::lease::{ClaimParams, LeaseManager};

use candidate::{Arguments, NAMESPACE};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read();
    let identity = arguments.identity();
    let leases: Api<Lease> = Api::namespaced(arguments.client()?, NAMESPACE);
    let manager = LeaseManager::init(leases.clone(), &arguments.lease).await?;
    let lease_duration = arguments.lease_duration;
    let params = ClaimParams { lease_duration, renew_grace_period: arguments.grace() };
    let (mut claim, _task) = manager.spawn(&identity, params).await?;
    claim.wait_for(|claim| claim.is_current_for(&identity)).await?;
    let lease = leases.get(&arguments.lease).await?;
    arguments.lead(&lease, || claim.borrow().is_current_for(&identity)).await?;
    candidate::lost()
}
