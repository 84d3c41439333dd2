//! Handlers that were told everything once and then read nothing: how long what is live takes to
//! another one while a change of each object comes to wait for them, a key each, beside what it
//! takes with none of them.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use deltafifo_bench::workloads::MemoryMark;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::shared_informer::{HandlerOptions, Subscription};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::sleep;

use super::form::Form;
use super::live::{self, HEAD, REST, report};
use super::load::Load;
use super::mib;

#[derive(Args)]
pub struct Options {
    /// How many objects there are: they are written to in turn
    #[arg(long, default_value_t = 100_000)]
    objects: u64,
    /// How many writes a second
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
    /// How many handlers read nothing: after none, each of these numbers
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    unread: Vec<usize>,
}

/// Gives what was promised and not kept.
#[tokio::main]
pub async fn measure(options: &Options) -> Result<Vec<String>, Box<dyn Error>> {
    let load = Arc::new(Load::new(options.objects, options.rate)?);
    let informer = load.informer()?;
    let (handler, live) = live::add(&informer, &load, Form::Task)?;
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
        "{} objects, {} writes a second to all in turn; times in ms",
        options.objects, options.rate
    );
    println!("{HEAD}");
    // Every object once, and some.
    let length = Duration::from_secs(options.objects.div_ceil(options.rate.into())) + REST;
    let mut broken = Vec::new();
    for unread in std::iter::once(0).chain(options.unread.iter().copied()) {
        let mut streams = Vec::new();
        for _ in 0..unread {
            streams.push(told_all(&informer).await?);
        }
        let (memory, from) = (MemoryMark::start(), Instant::now());
        sleep(length).await;
        let waiting: Vec<_> =
            streams.iter().map(|stream| stream.registration().depth() as u64).collect();
        let growth = mib(memory.peak_over_start());
        report(&format!("{unread} that read not"), &live, from, &format!("{growth:12.1}")).await;
        if waiting.iter().any(|depth| *depth != options.objects) {
            broken.push(format!("{waiting:?} changes waited, of {} objects", options.objects));
        }
    }
    is_over.store(true, Ordering::Relaxed);
    offering.await??;
    informer.stop().await;
    running.await??;
    broken.extend(live.lock().broken());
    Ok(broken)
}

/// A stream that was told of every object, and is read no more.
async fn told_all(
    informer: &SharedInformer<ConfigMap>,
) -> Result<Subscription<ConfigMap>, Box<dyn Error>> {
    let mut stream = informer.subscribe(HandlerOptions::new())?;
    let handle = stream.registration().clone();
    let mut synced = std::pin::pin!(handle.wait_for_sync());
    loop {
        tokio::select! {
            done = &mut synced => {
                done?;
                break;
            }
            told = stream.next() => {
                told.ok_or("the informer has stopped")?;
            }
        }
    }
    Ok(stream)
}
