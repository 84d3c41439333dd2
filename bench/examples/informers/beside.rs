//! One run, in a process of its own: fast handlers beside slow ones of one policy.

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deltafifo_bench::workloads::MemoryMark;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::shared_informer::{AddHandlerError, Buffer, HandlerOptions, Registration};
use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::form::Form;
use super::handlers::{Options, Run};
use super::load::Load;
use super::tally::{Found, Tally};
use super::{histogram, quantile};

/// What waits for the slow ones is looked at so often.
const LOOK: Duration = Duration::from_millis(10);
/// Who has not been told everything by then never is.
const LATEST: Duration = Duration::from_secs(90);

/// What a run found: times in milliseconds, memory in bytes.
#[derive(Serialize, Deserialize)]
pub struct Outcome {
    pub p50: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub longest: f64,
    /// The share of changes that fast ones were not told by themselves.
    pub absorbed: f64,
    pub depth: usize,
    pub most_depth: usize,
    /// Of the oldest that waited, and what the greatest depth takes to be told.
    pub age: f64,
    pub most_age: f64,
    pub resyncs: u64,
    pub growth: u64,
    /// How many cores were busy while writes were due, and microseconds of a core for each call,
    /// in all.
    pub cores: f64,
    pub call: f64,
    /// What a write took in the test kit, and how late writes were at p99.
    pub write: f64,
    pub late: f64,
    /// From the last write until all were told everything.
    pub rest: f64,
    pub broken: Vec<String>,
}

/// A handler was told everything.
struct Complete {
    is_slow: bool,
    found: Found,
    a_call: Duration,
}

/// Who is told.
struct Handlers {
    load: Arc<Load>,
    end: u64,
    form: Form,
    complete: UnboundedSender<Complete>,
}

#[tokio::main]
pub async fn measure(run: Run, options: &Options) -> Result<Outcome, Box<dyn Error>> {
    let load = Arc::new(Load::new(options.objects, options.rate)?);
    let end =
        load.end(Duration::from_secs(options.seconds) / if run == Run::HoldBack { 10 } else { 1 });
    let informer = load.informer()?;
    let (complete, mut completed) = unbounded_channel();
    let handlers = Handlers { load: load.clone(), end, form: options.form, complete };
    let (fast, slow) = run.handlers(options);
    let pause = Duration::from_micros(options.pause);
    let quick = |_| handlers.add(&informer, Buffer::Compress, None);
    let mut all = (0..fast).map(quick).collect::<Result<Vec<_>, _>>()?;
    let slowly = |_| handlers.add(&informer, run.buffer(options), Some(pause));
    let slow = (0..slow).map(slowly).collect::<Result<Vec<_>, _>>()?;
    all.extend(slow.iter().cloned());
    let running = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run().await }
    });
    for handler in &all {
        handler.wait_for_sync().await?;
    }

    let memory = MemoryMark::start();
    let (busy_before, from) = (busy()?, Instant::now());
    let mut offering = tokio::task::spawn_blocking(move || load.offer(|number| number == end));
    let mut looks = tokio::time::interval(LOOK);
    let (mut age, mut all_told) = (Duration::ZERO, Vec::new());
    let mut offered = None;
    while offered.is_none() || all_told.len() < all.len() {
        tokio::select! {
            Some(one) = completed.recv() => all_told.push(one),
            done = &mut offering, if offered.is_none() => {
                let cores = (busy()? - busy_before) / from.elapsed().as_secs_f64();
                offered = Some((done??, Instant::now(), cores));
            }
            _ = looks.tick() => {
                age = slow.iter().filter_map(Registration::age).fold(age, Duration::max);
                if offered.as_ref().is_some_and(|(_, at, _)| at.elapsed() > LATEST) {
                    break;
                }
            }
        }
    }
    let (offered, at, cores) = offered.ok_or("nothing was written")?;
    let (rest, busy) = (at.elapsed(), busy()? - busy_before);
    let growth = memory.peak_over_start();
    let depth = slow.iter().map(Registration::high_water).max().unwrap_or_default();
    informer.stop().await;
    running.await??;

    let mut broken = Vec::new();
    let mut promise = |is_kept: bool, otherwise: String| {
        if !is_kept {
            broken.push(otherwise);
        }
    };
    let late = all.len() - all_told.len();
    promise(late == 0, format!("{late} handlers were not told the last state of every object"));
    let most_depth = run.most_depth(options, end);
    promise(depth <= most_depth, format!("{depth} changes waited, of at most {most_depth}"));
    let wrong: u64 = all_told.iter().map(|one| one.found.wrong).sum();
    promise(wrong == 0, format!("{wrong} changes were not from what the handler was told last"));
    let (slow, fast): (Vec<_>, Vec<_>) = all_told.iter().partition(|one| one.is_slow);
    let lost: u64 = slow.iter().map(|one| one.found.absorbed).sum();
    promise(
        run != Run::HoldBack || lost == 0,
        format!("{lost} changes were lost to handlers that are waited for"),
    );
    let mut latencies = histogram();
    for one in &fast {
        latencies.add(&one.found.latencies)?;
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let slowest = slow.iter().map(|one| milliseconds(one.a_call)).fold(0.0, f64::max);
    Ok(Outcome {
        p50: quantile(&latencies, 0.5),
        p99: quantile(&latencies, 0.99),
        p99_9: quantile(&latencies, 0.999),
        longest: quantile(&latencies, 1.0),
        absorbed: as_f64(fast.iter().map(|one| one.found.absorbed).sum())
            / as_f64(latencies.len().max(1)),
        depth,
        most_depth,
        age: milliseconds(age),
        most_age: slowest * as_f64(most_depth as u64),
        resyncs: slow.iter().map(|one| one.found.resyncs).sum(),
        growth,
        cores,
        call: busy * 1e6 / as_f64(all_told.iter().map(|one| one.found.calls).sum::<u64>().max(1)),
        write: milliseconds(offered.writing) / as_f64(end - options.objects),
        late: quantile(&offered.late, 0.99),
        rest: milliseconds(rest),
        broken,
    })
}

impl Handlers {
    fn add(
        &self,
        informer: &SharedInformer<ConfigMap>,
        buffer: Buffer,
        pause: Option<Duration>,
    ) -> Result<Registration<ConfigMap>, AddHandlerError> {
        let mut tally = Some(Tally::new(self.load.clone(), self.end));
        let (load, complete) = (self.load.clone(), self.complete.clone());
        let tell = move |told| {
            // Nobody is slow before the first write.
            let pause = pause.filter(|_| load.has_begun()).unwrap_or_default();
            if let Some(tally) = &mut tally {
                tally.note(&told);
            }
            if let Some(Tally { found, .. }) = tally.take_if(|tally| tally.is_complete()) {
                let a_call = found.a_call();
                // Nobody listens any more who has waited long enough.
                let _ = complete.send(Complete { is_slow: !pause.is_zero(), found, a_call });
            }
            pause
        };
        self.form.add(informer, HandlerOptions::new().buffer(buffer), tell)
    }
}

/// Seconds of all cores that this process has used.
fn busy() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the process is in parentheses, and may have spaces in it. Ticks are hundredths
    // of a second.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Result<Vec<f64>, _> = fields.skip(11).take(2).map(str::parse).collect();
    Ok(ticks?.iter().sum::<f64>() / 100.0)
}

#[allow(clippy::cast_precision_loss)] // For a table.
fn as_f64(count: u64) -> f64 {
    count as f64
}
