//! Replicas in processes of their own, which share the objects of a server that does not shard.
//!
//! No Lease exists at first. So every replica waits for the lease duration before it holds a shard,
//! and takes its share then. No shard moves, and each object is reconciled once.

use std::time::Duration;

use deltafifo_testkit::{ApiServer, Resource, Verb, status};
use tokio::time::sleep;

use crate::child::{Process, Progress};
use crate::cluster::{Failure, config_map, reached, serve, server};
use crate::replica::Mode;
use crate::row::{Row, count};

/// The longest time until all objects are reconciled.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// The replicas of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct Replicas {
    pub(crate) mode: Mode,
    pub(crate) objects: usize,
    pub(crate) members: usize,
    pub(crate) is_quick: bool,
}

/// Measures one replica of several beside an unsharded controller: the objects in memory, and the
/// CPU time of the initial list and of a relist.
pub(crate) async fn measure_share(replicas: Replicas) -> Result<Vec<Row>, Failure> {
    let alone = replicas.alone().run_with_relist().await?;
    let shares = replicas.run_with_relist().await?;
    let title = replicas.title();
    let largest = |figure: fn(&Usage) -> f64| shares.iter().map(figure).fold(0.0, f64::max);
    let row = |name: &str, unit, figure: fn(&Usage) -> f64| {
        let without = alone.iter().map(figure).sum();
        (Row::new(format!("{title}: {name}"), unit, largest(figure)).unsharded(without), without)
    };
    let [stored, list, relist] = [
        row("objects in memory", "", |usage| count(usage.listed.stored)),
        row("CPU of the initial list and reconciles", "s", |usage| usage.listed.cpu_seconds),
        row("CPU of a relist without changes", "s", |usage| usage.relist_cpu),
    ];
    Ok(vec![stored.0.bar(0.3 * stored.1), list.0, relist.0.bar(0.5 * relist.1)])
}

/// Measures the peak memory of the replicas, and whether they reconcile every object once. A group
/// permits further reconciles: after a move of a shard, and in one term if the request of a list is
/// late. Then runs them again, and kills one in the middle.
///
/// # Errors
/// If an object was missed.
pub(crate) async fn measure_large(replicas: Replicas) -> Result<Vec<Row>, Failure> {
    let title = replicas.title();
    let (alone, _) = replicas.alone().run().await?;
    let alone_peak = alone.iter().map(|alone| gib(alone.progress())).sum();
    expect_all(&replicas, alone).await?;
    let (shares, _server) = replicas.run().await?;
    let peaks: Vec<_> = shares.iter().map(|share| gib(share.progress())).collect();
    let sum = |figure: fn(&Progress) -> usize| -> usize {
        shares.iter().map(|share| figure(&share.progress())).sum()
    };
    let (calls, repeated_in_term) = (sum(|share| share.calls), sum(|share| share.repeated_in_term));
    expect_all(&replicas, shares).await?;
    // Not negative, because no object was missed.
    let repeated = calls - replicas.objects;
    let largest = peaks.iter().copied().fold(0.0, f64::max);
    let mut rows = vec![
        Row::new(format!("{title}: objects that were missed"), "", 0.0).bar(0.0),
        Row::new(format!("{title}: reconciles but the first of each object"), "", count(repeated))
            .bar(0.0),
        Row::new(format!("{title}: of these in one term"), "", count(repeated_in_term)),
        Row::new(format!("{title}: peak memory of the largest"), "GiB", largest)
            .bar(0.35 * alone_peak)
            .unsharded(alone_peak),
        Row::new(format!("{title}: peak memory together"), "GiB", peaks.iter().sum()).bar(12.0),
    ];
    let killed = replicas.run_and_kill().await?;
    rows.push(Row::new(
        format!("{title}, killed: objects that it had reconciled"),
        "",
        count(killed),
    ));
    rows.push(
        Row::new(format!("{title}, killed: objects that the others missed"), "", 0.0).bar(0.0),
    );
    Ok(rows)
}

/// The figures of a replica.
struct Usage {
    /// The state after the initial list and reconciles.
    listed: Progress,
    relist_cpu: f64,
}

impl Replicas {
    fn alone(self) -> Self {
        Self { mode: Mode::Unsharded, members: 1, ..self }
    }

    fn title(self) -> String {
        format!("{}, replica of {}", self.mode.title(), self.members)
    }

    /// Starts the replicas over a new server.
    async fn start(self) -> Result<(Vec<Process>, ApiServer), Failure> {
        let server = server(self.mode.selectors());
        let make = |number| config_map(usize::try_from(number).unwrap_or_default());
        server.generate(&Resource::config_maps(), self.objects as u64, make)?;
        let url = format!("http://{}", serve(server.clone()).await?);
        let Self { mode, objects, members, is_quick } = self;
        let start =
            |number| Process::start(&url, &format!("pod-{number}"), mode, objects, is_quick);
        Ok(((0..members).map(start).collect::<Result<_, _>>()?, server))
    }

    /// Starts the replicas over a new server, and waits until they have reconciled all objects and
    /// are at rest.
    async fn run(self) -> Result<(Vec<Process>, ApiServer), Failure> {
        let (processes, server) = self.start().await?;
        let all = || distinct(&processes) >= self.objects;
        reached("reconciles of all objects", LIMIT, all).await?;
        at_rest(&processes).await?;
        Ok((processes, server))
    }

    async fn run_with_relist(self) -> Result<Vec<Usage>, Failure> {
        let (processes, server) = self.run().await?;
        let listed: Vec<_> = processes.iter().map(Process::progress).collect();
        server.forget_requests();
        server.error_watches(status::expired("too old resource version"));
        let lists = || {
            let requests = server.requests();
            let is_list = |verb| matches!(verb, Verb::List) || matches!(verb, Verb::Watch);
            let of_maps = requests.iter().filter(|request| request.plural() == Some("configmaps"));
            of_maps.filter(|request| is_list(request.verb())).count()
        };
        reached("a relist by each replica", LIMIT, || lists() >= processes.len()).await?;
        at_rest(&processes).await?;
        let usage = |(process, listed): (&Process, Progress)| Usage {
            relist_cpu: process.progress().cpu_seconds - listed.cpu_seconds,
            listed,
        };
        let usages = processes.iter().zip(listed).map(usage).collect();
        expect_all(&self, processes).await?;
        Ok(usages)
    }

    /// Runs the replicas, and kills one that has reconciled half of its objects. Returns the number
    /// of objects that it had reconciled.
    ///
    /// # Errors
    /// If the others have not reconciled every object.
    async fn run_and_kill(self) -> Result<usize, Failure> {
        let (mut processes, _server) = self.start().await?;
        let half = self.objects / self.members / 2;
        let is_in_the_middle = || processes[0].progress().distinct >= half;
        reached("the middle of the work", LIMIT, is_in_the_middle).await?;
        let killed = processes.swap_remove(0);
        let done = killed.progress().distinct;
        killed.kill().await?;
        reached("reconciles of all objects", LIMIT, || distinct(&processes) >= self.objects)
            .await?;
        at_rest(&processes).await?;
        expect_all(&self, processes).await?;
        Ok(done)
    }
}

#[expect(clippy::cast_precision_loss, reason = "the memory is far below 2^53 bytes")]
fn gib(progress: Progress) -> f64 {
    progress.peak_bytes as f64 / f64::from(1 << 30)
}

fn distinct(processes: &[Process]) -> usize {
    processes.iter().map(|process| process.progress().distinct).sum()
}

/// Waits until each process takes less than 5 % of a core, on average, for two seconds.
async fn at_rest(processes: &[Process]) -> Result<(), Failure> {
    let cpu = || processes.iter().map(|process| process.progress().cpu_seconds).sum::<f64>();
    let at_rest = 0.1 * count(processes.len());
    for _ in 0..LIMIT.as_secs() {
        let before = cpu();
        sleep(Duration::from_secs(2)).await;
        if cpu() - before < at_rest {
            return Ok(());
        }
    }
    Err("the replicas do not come to rest".into())
}

/// Ends the replicas. Checks that they have reconciled each object.
async fn expect_all(replicas: &Replicas, processes: Vec<Process>) -> Result<(), Failure> {
    let mut all = vec![0; replicas.objects.div_ceil(64)];
    for process in processes {
        for (all, word) in all.iter_mut().zip(process.end().await?) {
            *all |= word;
        }
    }
    let reconciled: usize = all.iter().map(|word: &u64| word.count_ones() as usize).sum();
    if reconciled == replicas.objects {
        return Ok(());
    }
    Err(format!("{} objects were missed", replicas.objects - reconciled).into())
}
