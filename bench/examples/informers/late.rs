//! A handler that comes when much is known: how long what is live takes to another handler while
//! the late one is told everything, beside what it takes with nobody late, and beside a thread
//! that only computes: on two cores that delays others, too.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use deltafifo_bench::workloads::MemoryMark;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::shared_informer::{
    AddHandlerError, HandlerOptions, Notification, Registration,
};
use deltafifo_testkit::Resource;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

use super::form::Form;
use super::live::{self, REST, report};
use super::load::{Load, number};
use super::mib;

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
    let (handler, live) = live::add(&informer, &load, options.form)?;
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

    println!(
        "{} objects, {} writes a second to {} of them; times in ms",
        options.objects, options.rate, load.objects
    );
    println!("{}", live::HEAD);
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
            broken.push(format!(
                "a late handler was told of {known} of {} objects, {wrong} wrong",
                options.objects
            ));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    offering.await??;
    informer.stop().await;
    running.await??;
    broken.extend(live.lock().broken());
    Ok(broken)
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
        let place = number(object)
            .map(|number| number % objects)
            .or_else(|| Some(objects + generated()?))?;
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
