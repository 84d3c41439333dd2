//! A handler that comes when much is known: how long what is live takes to another handler while the late one is told
//! everything, beside what it takes with nobody late, and beside a thread that only computes: on two cores that delays others, too.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use deltafifo_bench::workloads::MemoryMark;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::shared_informer::{AddHandlerError, HandlerOptions, Notification, Registration};
use deltafifo_testkit::Resource;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

use super::form::Form;
use super::load::{Load, number};
use super::tally::Tally;
use super::{histogram, mib, quantile, record};

/// Between two measurements.
const REST: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Options {
    /// How many objects are known
    #[arg(long, default_value_t = 100_000)]
    objects: u64,
    /// How many of them are written to, in turn
    #[arg(long, default_value_t = 10_000)]
    live: u64,
    /// How many writes a second
    #[arg(long, default_value_t = 10_000)]
    rate: u32,
    /// For how long nobody is late, and for how long a thread computes
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many handlers come late, one after the other
    #[arg(long, default_value_t = 5)]
    late: usize,
    /// How handlers are called
    #[arg(long, value_enum, default_value_t = Form::Task)]
    form: Form,
}

/// What the handler was told that is there all the time.
struct Live {
    tally: Tally,
    /// When each write was due, and when it was told.
    times: Vec<(Instant, Instant)>,
}

/// What a late handler was told.
struct Seen {
    /// By object.
    is_told: Vec<bool>,
    known: u64,
    /// Added twice, or changed before they were added.
    wrong: u64,
}

/// Gives what was promised and not kept.
#[tokio::main]
pub async fn measure(options: &Options) -> Result<Vec<String>, Box<dyn Error>> {
    let load = Arc::new(Load::new(options.live.min(options.objects), options.rate)?);
    load.server.generate(&Resource::config_maps(), options.objects - load.objects, |known| {
        json!({
            "metadata": { "namespace": format!("namespace-{}", known % 10), "name": format!("known-{known}") },
            "data": { "known": known.to_string() },
        })
    })?;
    let informer = load.informer()?;
    let (handler, live) = come_early(&informer, &load, options.form)?;
    let running = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run().await }
    });
    handler.wait_for_sync().await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let offering = tokio::task::spawn_blocking({
        let (load, is_over) = (load.clone(), is_over.clone());
        // Only a flag, with nothing behind it.
        move || load.offer(|_| is_over.load(Ordering::Relaxed))
    });
    sleep(REST * 3).await;

    println!("{} objects, {} writes a second to {} of them; times in ms", options.objects, options.rate, load.objects);
    println!("beside             writes      p50      p99    p99.9  longest       took  memory MiB");
    let length = Duration::from_secs(options.seconds);
    let from = Instant::now();
    sleep(length).await;
    report("nobody", &live, from, "").await;
    let from = Instant::now();
    tokio::task::spawn_blocking(move || while from.elapsed() < length {}).await?;
    report("a busy thread", &live, from, "").await;
    let mut broken = Vec::new();
    for _ in 0..options.late {
        let memory = MemoryMark::start();
        let from = Instant::now();
        let (handler, seen) = come_late(&informer, &load, options)?;
        handler.wait_for_sync().await?;
        let growth = mib(memory.peak_over_start());
        let Seen { known, wrong, .. } = *seen.lock();
        report("a late handler", &live, from, &format!("{growth:12.1}")).await;
        handler.remove().await;
        if (known, wrong) != (options.objects, 0) {
            broken.push(format!("a late handler was told of {known} of {} objects, {wrong} wrong", options.objects));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    offering.await??;
    informer.stop().await;
    running.await??;
    let wrong = live.lock().tally.found.wrong;
    if wrong > 0 {
        broken.push(format!("{wrong} changes were not from what the handler was told last"));
    }
    Ok(broken)
}

fn come_early(
    informer: &SharedInformer<ConfigMap>,
    load: &Arc<Load>,
    form: Form,
) -> Result<(Registration<ConfigMap>, Arc<Mutex<Live>>), AddHandlerError> {
    let live = Live { tally: Tally::new(load.clone(), u64::MAX), times: Vec::new() };
    let live = Arc::new(Mutex::new(live));
    let (load, told_live) = (load.clone(), live.clone());
    let tell = move |told: Notification<ConfigMap>| {
        let now = Instant::now();
        let mut live = told_live.lock();
        match &told {
            Notification::Added { new, .. } if number(new).is_none() => return Duration::ZERO,
            Notification::Updated { old, new, .. } => {
                let numbers = number(old).zip(number(new));
                let due = numbers.into_iter().flat_map(|(old, new)| load.due_since(old, new));
                live.times.extend(due.map(|due| (due, now)));
            }
            _ => {}
        }
        live.tally.note(&told);
        Duration::ZERO
    };
    Ok((form.add(informer, HandlerOptions::new(), tell)?, live))
}

fn come_late(
    informer: &SharedInformer<ConfigMap>,
    load: &Load,
    options: &Options,
) -> Result<(Registration<ConfigMap>, Arc<Mutex<Seen>>), AddHandlerError> {
    let is_told = (0..options.objects).map(|_| false).collect();
    let seen = Arc::new(Mutex::new(Seen { is_told, known: 0, wrong: 0 }));
    let (objects, told_seen) = (load.objects, seen.clone());
    let place = move |object: &ConfigMap| {
        let generated = || object.data.as_ref()?.get("known")?.parse::<u64>().ok();
        let place = number(object).map(|number| number % objects).or_else(|| Some(objects + generated()?))?;
        usize::try_from(place).ok()
    };
    let tell = move |told: Notification<ConfigMap>| {
        let mut seen = told_seen.lock();
        let Seen { is_told, known, wrong } = &mut *seen;
        let (object, is_new) = match &told {
            Notification::Added { new, is_in_initial_list: true, .. } => (new, true),
            Notification::Updated { new, .. } => (new, false),
            _ => {
                *wrong += 1;
                return Duration::ZERO;
            }
        };
        match place(object).and_then(|place| is_told.get_mut(place)) {
            Some(is_told) if *is_told != is_new => {
                *known += u64::from(is_new);
                *is_told = true;
            }
            _ => *wrong += 1,
        }
        Duration::ZERO
    };
    Ok((options.form.add(informer, HandlerOptions::new(), tell)?, seen))
}

/// Prints how long those writes took that were on their way between then and now, when they have arrived.
async fn report(beside: &str, live: &Mutex<Live>, from: Instant, memory: &str) {
    let to = Instant::now();
    sleep(REST).await;
    let mut latencies = histogram();
    for (due, told) in live.lock().times.drain(..) {
        if due <= to && told >= from {
            record(&mut latencies, told.saturating_duration_since(due));
        }
    }
    println!(
        "{beside:<15} {:9} {:8.3} {:8.3} {:8.3} {:8.3} {:10.1} {memory}",
        latencies.len(),
        quantile(&latencies, 0.5),
        quantile(&latencies, 0.99),
        quantile(&latencies, 0.999),
        quantile(&latencies, 1.0),
        (to - from).as_secs_f64() * 1e3,
    );
}
