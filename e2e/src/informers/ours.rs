//! A shared informer of this project.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use deltafifo::BoxError;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::lister_watcher::Request;
use deltafifo_informer::reflector::Backoff;
use deltafifo_informer::shared_informer::{
    Buffer, HandlerOptions, InformerError, Notification, RunError,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::sleep::{Blocked, SleepGate};
use super::{Handlers, PANICS, PLAIN, SLEEPS, handlers};
use crate::fault::{Fault, ReportedError};
use crate::gate::Gate;
use crate::oracle::{States, keyed};

/// The name of a handler that sleeps, and whose buffer drops changes.
const DROPS: &str = "drops";
/// The buffer size, in changes, of the handler that panics, and of the one whose buffer drops
/// changes.
const FEW: usize = 64;
/// The time that a sleeping handler sleeps, after each [`SLEEP_EACH`] notifications.
/// `client-go/handlers.go` has the same value.
const ASLEEP: Duration = Duration::from_millis(100);
/// The number of notifications after which a sleeping handler sleeps again. `client-go/handlers.go`
/// has the same value.
const SLEEP_EACH: usize = 256;

pub struct OurInformer {
    name: &'static str,
    gate: Arc<Gate>,
    informer: SharedInformer<ConfigMap>,
    handlers: Handlers,
    errors: Arc<Errors>,
    running: JoinHandle<Result<(), RunError>>,
    sleep_gate: Arc<SleepGate>,
    blocked: Option<Blocked>,
}

/// The errors that the informer reported, and the panics of its handlers.
#[derive(Default)]
struct Errors {
    reported: Mutex<Vec<ReportedError>>,
    /// The number of panics of handlers. `panics_reported` counts their reports.
    panicked: AtomicUsize,
    panics_reported: AtomicUsize,
}

impl OurInformer {
    pub fn start(name: &'static str, client: Client, in_order: bool) -> Result<Self, BoxError> {
        let (gate, errors) = (Arc::new(Gate::new(client)), Arc::<Errors>::default());
        let builder = SharedInformer::builder(gate.clone()).reflector(|reflector| {
            reflector.backoff(Backoff::new(
                Duration::from_millis(100),
                Duration::from_secs(1),
                Duration::from_secs(120),
            ))
        });
        let report = errors.clone();
        let builder = builder.on_error(move |error| report.record(error));
        let informer = if in_order { builder.in_order() } else { builder.workers(2) }.build()?;
        let sleep_gate = Arc::<SleepGate>::default();
        let handlers = add_handlers(&informer, &errors, &sleep_gate)?;
        let running = tokio::spawn({
            let informer = informer.clone();
            async move { informer.run().await }
        });
        Ok(Self { name, gate, informer, handlers, errors, running, sleep_gate, blocked: None })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    pub fn stored(&self) -> States {
        self.informer.store().list().iter().map(|map| keyed(&map.metadata)).collect()
    }

    pub fn full_requests(&self) -> usize {
        let for_all = |request: &&Request| match request {
            Request::List(_) => true,
            Request::Watch(watch) => watch.send_initial_events,
        };
        self.gate.seen().requests.iter().filter(for_all).count()
    }

    /// Makes the sleeping handlers block at their next notification.
    pub fn fall_asleep(&mut self) {
        self.blocked = Some(self.sleep_gate.block());
    }

    /// Wakes the handlers that [`fall_asleep`](Self::fall_asleep) blocked.
    pub fn wake_up(&mut self) {
        self.blocked = None;
    }

    /// Checks that the handlers that slept while objects changed several times were notified as the
    /// policies of their buffers promise: one was notified of fewer changes than there were, and
    /// the other got a handler resync.
    pub fn check_buffers(&self) -> Result<(), BoxError> {
        let count_of = |handler| self.handlers[handler].lock().counts().all();
        let (plain, slept, resyncs) =
            (count_of(PLAIN), count_of(SLEEPS), self.handlers[DROPS].lock().resyncs());
        if slept >= plain || resyncs == 0 {
            let name = self.name;
            return Err(format!(
                "{name}: {slept} of {plain} changes were delivered after a sleep, and {resyncs} resyncs"
            )
            .into());
        }
        Ok(())
    }

    /// Stops the informer. Returns an error if the informer reported an error that `expected` does
    /// not accept, if no handler panicked, or if not every panic was reported.
    pub async fn stop(self, expected: impl Fn(Fault) -> bool) -> Result<(), BoxError> {
        self.informer.stop().await;
        self.running.await??;
        let (name, Errors { reported, panicked, panics_reported }) = (self.name, &*self.errors);
        if let Some(reported) = reported.lock().iter().find(|reported| !expected(reported.fault)) {
            return Err(format!("{name}: unexpected error: {}", reported.text).into());
        }
        // Relaxed, as the increments are: stopping the informer orders every call of a handler
        // before this load.
        let (panicked, panics_reported) =
            (panicked.load(Ordering::Relaxed), panics_reported.load(Ordering::Relaxed));
        if panicked == 0 || panics_reported != panicked {
            return Err(format!(
                "{name}: {panicked} panics of a handler, {panics_reported} reported"
            )
            .into());
        }
        Ok(())
    }
}

impl Errors {
    fn record(&self, error: &InformerError<'_>) {
        match error {
            InformerError::Reflector(error) => self.reported.lock().push(ReportedError::of(error)),
            InformerError::Panicked { .. } => {
                self.panics_reported.fetch_add(1, Ordering::Relaxed);
            }
            error => self
                .reported
                .lock()
                .push(ReportedError { fault: Fault::Other, text: error.to_string() }),
        }
    }
}

fn add_handlers(
    informer: &SharedInformer<ConfigMap>,
    errors: &Arc<Errors>,
    sleep_gate: &Arc<SleepGate>,
) -> Result<Handlers, BoxError> {
    let all = handlers(&[PLAIN, SLEEPS, PANICS, DROPS]);
    let add = |name, buffer, mut then: Box<dyn FnMut(usize) + Send>| {
        let (all, mut times) = (all.clone(), 0);
        let handler = move |notification: Notification<ConfigMap>| {
            all[name].lock().notify(&notification);
            times += 1;
            then(times);
        };
        informer.add_event_handler_with(HandlerOptions::new().buffer(buffer), handler)
    };
    let sleep = || {
        let sleep_gate = sleep_gate.clone();
        Box::new(move |times: usize| {
            sleep_gate.sleep();
            if times.is_multiple_of(SLEEP_EACH) {
                thread::sleep(ASLEEP);
            }
        })
    };
    let (mut next, errors) = (1, errors.clone());
    let panic = move |times| {
        if times == next {
            next *= 4;
            errors.panicked.fetch_add(1, Ordering::Relaxed);
            // `resume_unwind` does not call the panic hook, so nothing is printed.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    };
    add(PLAIN, Buffer::Compress, Box::new(|_| {}))?;
    add(SLEEPS, Buffer::Compress, sleep())?;
    add(PANICS, Buffer::HoldBack(FEW), Box::new(panic))?;
    add(DROPS, Buffer::DropAndResync(FEW), sleep())?;
    Ok(all)
}
