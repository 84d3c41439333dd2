//! A shared informer of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use deltafifo::BoxError;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::lister_watcher::Asked;
use deltafifo_informer::reflector::Backoff;
use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, InformerError, Notification, RunError};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::sleep::{Bed, Night};
use super::{Handlers, PANICS, PLAIN, SLEEPS, handlers};
use crate::fault::{Fault, Met};
use crate::gate::Gate;
use crate::oracle::{States, keyed};

/// A handler that also sleeps, and whose buffer drops changes.
const DROPS: &str = "drops";
/// The buffer size of the handler that panics, and of the one whose buffer drops changes.
const FEW: usize = 64;
/// As in client-go's handlers: see `client-go/handlers.go`.
const ASLEEP: Duration = Duration::from_millis(100);
const SLEEP_EACH: usize = 256;

pub struct Ours {
    name: &'static str,
    gate: Arc<Gate>,
    informer: SharedInformer<ConfigMap>,
    handlers: Handlers,
    errors: Arc<Errors>,
    running: JoinHandle<Result<(), RunError>>,
    bed: Arc<Bed>,
    night: Option<Night>,
}

/// The reported errors.
#[derive(Default)]
struct Errors {
    met: Mutex<Vec<Met>>,
    /// The number of panics of handlers, and of their reports.
    panicked: AtomicUsize,
    reported: AtomicUsize,
}

impl Ours {
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
        let builder = builder.on_error(move |error| report.note(error));
        let informer = if in_order { builder.in_order() } else { builder.delta().workers(2) }.build()?;
        let bed = Arc::<Bed>::default();
        let handlers = add_handlers(&informer, &errors, &bed)?;
        let running = tokio::spawn({
            let informer = informer.clone();
            async move { informer.run().await }
        });
        Ok(Self { name, gate, informer, handlers, errors, running, bed, night: None })
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

    pub fn asked_for_all(&self) -> usize {
        let for_all = |asked: &&Asked| match asked {
            Asked::List(_) => true,
            Asked::Watch(watch) => watch.send_initial_events,
        };
        self.gate.seen().asked.iter().filter(for_all).count()
    }

    /// Makes the handlers that sleep block, whatever is delivered to them.
    pub fn fall_asleep(&mut self) {
        self.night = Some(self.bed.night());
    }

    /// Wakes them.
    pub fn wake_up(&mut self) {
        self.night = None;
    }

    /// Checks that handlers which slept while objects changed several times were notified as
    /// their buffers promise: with fewer changes than there were, or after a handler resync.
    pub fn was_behind(&self) -> Result<(), BoxError> {
        let told = |handler| self.handlers[handler].lock().counts().all();
        let (plain, slept, resyncs) = (told(PLAIN), told(SLEEPS), self.handlers[DROPS].lock().resyncs());
        if slept >= plain || resyncs == 0 {
            let name = self.name;
            return Err(
                format!("{name}: {slept} changes of {plain} were told after a sleep, and {resyncs} resyncs").into()
            );
        }
        Ok(())
    }

    /// Stops the informer, and judges the reported errors.
    pub async fn stop(self, expected: impl Fn(Fault) -> bool) -> Result<(), BoxError> {
        self.informer.stop().await;
        self.running.await??;
        let (name, Errors { met, panicked, reported }) = (self.name, &*self.errors);
        if let Some(met) = met.lock().iter().find(|met| !expected(met.fault)) {
            return Err(format!("{name}: an error that nothing here brings about: {}", met.text).into());
        }
        // Relaxed, as at the increments: stopping the informer orders every call of a handler
        // before this.
        let (panicked, reported) = (panicked.load(Ordering::Relaxed), reported.load(Ordering::Relaxed));
        if panicked == 0 || reported != panicked {
            return Err(format!("{name}: {panicked} panics of a handler, {reported} reported").into());
        }
        Ok(())
    }
}

impl Errors {
    fn note(&self, error: &InformerError<'_>) {
        match error {
            InformerError::Reflector(error) => self.met.lock().push(Met::of(error)),
            InformerError::Panicked { .. } => {
                self.reported.fetch_add(1, Ordering::Relaxed);
            }
            error => self.met.lock().push(Met { fault: Fault::Other, text: error.to_string() }),
        }
    }
}

fn add_handlers(
    informer: &SharedInformer<ConfigMap>,
    errors: &Arc<Errors>,
    bed: &Arc<Bed>,
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
        let bed = bed.clone();
        Box::new(move |times: usize| {
            bed.sleep();
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
