//! The graceful release of a leader election.

use std::future::pending;
use std::time::{Duration, Instant};

use deltafifo_informer::leader_election::{LeaderElector, LeaseLock};
use deltafifo_testkit::ShardSelectors;
use tokio::sync::oneshot;

use crate::cluster::{Failure, NAMESPACE, create_lease, server};
use crate::row::Row;

/// The time in which a free lease is claimed, and a claim is seen. A trial that takes longer fails.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn measure(trials: usize) -> Result<Vec<Row>, Failure> {
    let server = server(ShardSelectors::Ignored);
    let mut times = Vec::new();
    for trial in 0..trials {
        let lease = format!("trial-{trial}");
        create_lease(&server, &lease)?;
        let [leader, standby] = ["leader", "standby"].map(|pod| {
            let (cancel, cancelled) = oneshot::channel::<()>();
            let (leads, leading) = oneshot::channel();
            let lock = LeaseLock::new(NAMESPACE, &lease).identity(pod);
            let elector = LeaderElector::builder(server.client(), lock)
                .cancel_on(async { drop(cancelled.await) })
                .build();
            elector.map(|elector| (elector, cancel, leads, leading))
        });
        let (leader, cancel, leads, first_term) = leader?;
        let (standby, _standby_runs, takes_over, second_term) = standby?;
        let lead = |leads: oneshot::Sender<Instant>| async move {
            // Fails if the trial has failed.
            let _ = leads.send(Instant::now());
            pending::<()>().await;
        };
        let running = tokio::spawn(async move { leader.run(|_| lead(leads)).await });
        tokio::time::timeout(LIMIT, first_term).await??;
        let mut seen = standby.leader();
        let waiting = tokio::spawn(async move { standby.run(|_| lead(takes_over)).await });
        let is_seen = seen.wait_for(Option::is_some);
        drop(tokio::time::timeout(LIMIT, is_seen).await??);
        let cancelled = Instant::now();
        drop(cancel);
        let taken = tokio::time::timeout(LIMIT, second_term).await??;
        times.push(taken.duration_since(cancelled).as_secs_f64());
        running.await??;
        waiting.abort();
    }
    times.sort_by(f64::total_cmp);
    let longest = times.last().copied().ok_or("there is a trial")?;
    Ok(vec![
        Row::new(
            format!("elector, release to the standby's lead, longest of {trials}"),
            "s",
            longest,
        )
        .bar(0.1),
    ])
}
