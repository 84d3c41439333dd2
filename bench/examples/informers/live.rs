//! A handler that is there all the time, and how long what is live takes to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deltafifo_informer::SharedInformer;
use deltafifo_informer::shared_informer::{
    AddHandlerError, HandlerOptions, Notification, Registration,
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::form::Form;
use super::load::{Load, number};
use super::tally::Tally;
use super::{histogram, quantile, record};

/// Between two measurements.
pub const REST: Duration = Duration::from_millis(500);

/// What the handler was told.
pub struct Live {
    tally: Tally,
    /// When each write was due, and when it was told.
    times: Vec<(Instant, Instant)>,
}

/// Adds the handler.
pub fn add(
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

impl Live {
    /// A broken promise, if there is one.
    pub fn broken(&self) -> Option<String> {
        let wrong = self.tally.found.wrong;
        (wrong > 0).then(|| format!("{wrong} changes were not from what the handler was told last"))
    }
}

pub const HEAD: &str = "\
beside               writes      p50      p99    p99.9  longest       took  memory MiB";

/// Prints how long those writes took that were on their way between then and now, when they have
/// arrived.
pub async fn report(beside: &str, live: &Mutex<Live>, from: Instant, memory: &str) {
    let to = Instant::now();
    sleep(REST).await;
    let mut latencies = histogram();
    for (due, told) in live.lock().times.drain(..) {
        if due <= to && told >= from {
            record(&mut latencies, told.saturating_duration_since(due));
        }
    }
    println!(
        "{beside:<17} {:9} {:8.3} {:8.3} {:8.3} {:8.3} {:10.1} {memory}",
        latencies.len(),
        quantile(&latencies, 0.5),
        quantile(&latencies, 0.99),
        quantile(&latencies, 0.999),
        quantile(&latencies, 1.0),
        (to - from).as_secs_f64() * 1e3,
    );
}
