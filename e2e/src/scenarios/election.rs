//! The scenarios of elections: leaders are killed, stopped, terminated or cut off, their servers
//! are stopped for a time, or their leases are deleted. No term may write after a later term has
//! written, if the writes contain versions; see `election/`.

use deltafifo::BoxError;
use http::Request;
use kube::Client;

use super::{Ended, Outcome, Setting};
use crate::election::fault::Fault;
use crate::election::{Batch, CandidateOptions, Figures, Recorder};
use crate::servers::{Options, Servers};
use crate::timing::Timing;

/// The largest number of trials at a time, each with a lease of its own.
const AT_ONCE: usize = 10;

/// Runs trials of all faults with durations that are as short as a loaded machine permits.
pub async fn short(setting: &Setting) -> Ended {
    let few = [Fault::Cut, Fault::ApiKilled, Fault::EtcdGone, Fault::LeaseDeleted];
    let many = [Fault::Terminate, Fault::Kill, Fault::Stop].map(|fault| (fault, 20));
    let plan = many.into_iter().chain(few.map(|fault| (fault, 10)));
    run(setting, Timing::SHORT, false, plan.collect()).await
}

/// Runs five trials of each fault with the default durations of an elector.
pub async fn defaults(setting: &Setting) -> Ended {
    run(setting, Timing::DEFAULT, false, Fault::ALL.map(|fault| (fault, 5)).into()).await
}

/// Kills and stops many leaders.
pub async fn full(setting: &Setting) -> Ended {
    let trials = setting.trials.unwrap_or(100);
    run(setting, Timing::SHORT, false, vec![(Fault::Kill, trials), (Fault::Stop, trials)]).await
}

/// Terminates and kills leaders that write each object once, so that the servers are almost idle
/// when the other candidate begins to lead.
pub async fn handovers(setting: &Setting) -> Ended {
    let trials = setting.trials.unwrap_or(50);
    run(setting, Timing::SHORT, true, vec![(Fault::Terminate, trials), (Fault::Kill, trials)]).await
}

/// Runs trials of each fault. The leaders write each object `once`, or as fast as the server
/// answers.
async fn run(setting: &Setting, timing: Timing, once: bool, plan: Vec<(Fault, usize)>) -> Ended {
    let options = CandidateOptions { timing, once, release_on_cancel: false };
    // The recorder reads the stored objects in etcd, and can only decode JSON.
    let arguments = vec!["--storage-media-type=application/json"];
    let mut servers = Servers::start(setting, Options { arguments, ..Options::default() }).await?;
    let recorder = Recorder::start(servers.etcd_client()?);
    let mut figures = Figures::default();
    let mut idle = None;
    for (fault, trials) in plan {
        let mut leases = 0;
        // A trial is repeated if a candidate lost the lease without the fault.
        while figures.trials(fault) < trials {
            let number = AT_ONCE.min(trials - figures.trials(fault));
            let numbers = leases..leases + number;
            leases += number;
            let batch =
                Batch::start(setting, &servers, &recorder, (fault, numbers), options).await?;
            if idle.is_none() {
                idle = Some(idle_requests(&servers.client(), &batch, number, timing).await?);
            }
            figures.0.extend(batch.conclude(&mut servers).await?);
        }
    }
    Ok(Outcome::Held(format!("{figures}; {}", idle.unwrap_or_default())))
}

/// Counts the writes and reads of leases during four lease durations without a fault. Returns a
/// text with the writes per lease and second, and the number of reads.
async fn idle_requests(
    client: &Client,
    batch: &Batch,
    leases: usize,
    timing: Timing,
) -> Result<String, BoxError> {
    let during = timing.lease_duration * 4;
    let before = lease_reads(client).await?;
    let writes = batch.count_lease_writes(during).await;
    let reads = lease_reads(client).await? - before;
    let rate = float(writes) / float(leases) / during.as_secs_f64();
    Ok(format!("idle: {rate:.2} writes of a lease a second, {reads} reads in {during:?}"))
}

fn float(number: usize) -> f64 {
    // The limit of `u32` is not reached: the numbers are small.
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Returns the number of reads of leases that the API server has answered.
async fn lease_reads(client: &Client) -> Result<u64, BoxError> {
    let metrics = client.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let mut reads = 0;
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        if line.contains(r#"resource="leases""#) && line.contains(r#"verb="GET""#) {
            let number = line.rsplit(' ').next().unwrap_or_default();
            reads += number.parse::<u64>()?;
        }
    }
    Ok(reads)
}
