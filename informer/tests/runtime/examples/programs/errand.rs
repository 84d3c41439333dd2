//! Runs a job once, waits for its end, and removes its record. (Shape: `job_api`.)

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::runtime::wait::{await_condition, conditions};

pub async fn run(client: Client, say: impl Fn(String)) -> Result<(), Box<dyn Error>> {
    let errand = serde_json::from_value(json!({
        "metadata": { "name": "compost" },
        "spec": { "template": {
            "metadata": { "name": "compost" },
            "spec": {
                "containers": [{ "name": "turn", "image": "garden/compost:3" }],
                "restartPolicy": "Never",
            },
        } },
    }))?;
    let errands: Api<Job> = Api::default_namespaced(client);
    errands.create(&PostParams::default(), &errand).await?;
    let done = await_condition(errands.clone(), "compost", conditions::is_job_completed());
    match timeout(Duration::from_secs(60), done).await {
        Ok(job) => say(format!("done: {}", job?.is_some())),
        Err(_elapsed) => say("not done in time".to_owned()),
    }
    errands.delete("compost", &DeleteParams::background()).await?;
    Ok(())
}
