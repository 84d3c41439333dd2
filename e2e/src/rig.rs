//! A rig: a reflector behind a gate, its queue over a store, a consumer that applies every item,
//! and a record of all applied changes and reported errors.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{BoxError, DeltaFifo, Indexer, KeyFunc, ResourceVersion};
use deltafifo_informer::reflector::{Backoff, ReflectorBuilder};
use deltafifo_informer::{KubeMeta, Reflector, ReflectorError, error_chain};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::fault::{Fault, ReportedError};
use crate::gate::Gate;
use crate::oracle::{Counts, HandlerLog, States, Version, difference, keyed};
use crate::servers::Servers;
use crate::wait::{agreed, until};
use crate::writer::Writer;

/// The longest time that the reflector may take to catch up once the server is available.
const LEARNING: Duration = Duration::from_secs(60);

type Queue = DeltaFifo<ConfigMap, KubeMeta>;

/// A running reflector with its consumer. Dropping the value stops both.
pub struct Rig {
    pub gate: Arc<Gate>,
    reflector: Arc<Reflector<ConfigMap>>,
    fifo: Arc<Queue>,
    log: Arc<Mutex<HandlerLog>>,
    reported: Arc<Mutex<Vec<ReportedError>>>,
    tasks: [JoinHandle<()>; 2],
}

impl Rig {
    /// Starts a reflector behind `gate`, configured by `choose`. Its backoff is shorter than the
    /// default.
    pub fn start(
        gate: Gate,
        choose: impl FnOnce(ReflectorBuilder<ConfigMap>) -> ReflectorBuilder<ConfigMap>,
    ) -> Result<Self, BoxError> {
        let (gate, log, reported) = (
            Arc::new(gate),
            Arc::<Mutex<HandlerLog>>::default(),
            Arc::<Mutex<Vec<ReportedError>>>::default(),
        );
        let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
        let fifo: Arc<Queue> = Arc::new(DeltaFifo::over(store).build());
        let errors = reported.clone();
        let builder = Reflector::builder(gate.clone(), fifo.clone())
            .backoff(Backoff::new(
                Duration::from_millis(100),
                Duration::from_secs(1),
                Duration::from_secs(120),
            ))
            .on_error(move |error: &ReflectorError| errors.lock().push(ReportedError::of(error)));
        let reflector = Arc::new(choose(builder).build());
        let tasks = [
            tokio::spawn(run(reflector.clone(), log.clone())),
            tokio::spawn(consume(fifo.clone(), log.clone())),
        ];
        Ok(Self { gate, reflector, fifo, log, reported, tasks })
    }

    /// Starts two rigs: one with streamed lists, one with plain ones.
    pub fn both(servers: &Servers) -> Result<[Self; 2], BoxError> {
        let start = |streamed| {
            Self::start(Gate::new(servers.client()), |builder| builder.watch_list(streamed))
        };
        Ok([start(true)?, start(false)?])
    }

    /// Returns the numbers of changes that the consumer has applied so far, by kind.
    pub fn counts(&self) -> Counts {
        self.log.lock().counts()
    }

    /// Returns the number of objects that the consumer knows from the applied changes.
    pub fn known(&self) -> usize {
        self.log.lock().live().len()
    }

    /// Returns the number of times that the reflector reported this error.
    pub fn times(&self, fault: Fault) -> usize {
        self.reported.lock().iter().filter(|reported| reported.fault == fault).count()
    }

    /// Returns the version that the reflector has reached.
    pub fn version(&self) -> Version {
        self.reflector.last_sync_resource_version().as_deref().and_then(ResourceVersion::parse)
    }

    /// Waits until the reflector has reached `version`.
    pub async fn reached(&self, version: &str) -> Result<(), BoxError> {
        let wanted = ResourceVersion::parse(version);
        until(&format!("version {version}"), LEARNING, || self.version() >= wanted).await
    }

    /// Waits until the consumer has applied `changes` more changes.
    pub async fn received_more(&self, changes: usize) -> Result<(), BoxError> {
        let wanted = self.counts().all() + changes;
        until(&format!("{changes} more changes"), LEARNING, || self.counts().all() >= wanted).await
    }

    /// Waits until the reflector and the consumer have the server's state. Returns an error if the
    /// store does not have it, or if the applied changes do not match the writes: for example, an
    /// object was lost, or has a state that was never written.
    pub async fn settled(&self, writer: &Writer) -> Result<(), BoxError> {
        let fresh = agreed(writer, LEARNING, |fresh| self.differs(fresh)).await?;
        let stored: States =
            self.fifo.store().list().iter().map(|map| keyed(&map.metadata)).collect();
        if let Some(difference) = difference(&stored, &fresh) {
            return Err(format!(
                "the store differs from the objects that handlers know: {difference}"
            )
            .into());
        }
        self.log.lock().judge(&stored, writer.written())
    }

    fn differs(&self, fresh: &States) -> Option<String> {
        let newest = fresh.values().map(|state| &state.version).max().cloned().flatten();
        // A relist delivers its changes before it ends, so the reflector's version may lag behind
        // the handlers.
        let behind = || {
            (self.version() < newest).then(|| format!("the reflector is at {:?}", self.version()))
        };
        difference(self.log.lock().live(), fresh).or_else(behind)
    }

    /// Returns an error if the reflector reported an error that `expected` does not accept.
    pub fn met_only(&self, expected: impl Fn(Fault) -> bool) -> Result<(), BoxError> {
        match self.reported.lock().iter().find(|reported| !expected(reported.fault)) {
            Some(reported) => Err(format!("unexpected error: {}", reported.text).into()),
            None => Ok(()),
        }
    }

    /// Returns a readable summary of the changes and errors.
    pub fn summary(&self) -> String {
        let mut times = HashMap::<Fault, usize>::new();
        for reported in self.reported.lock().iter() {
            *times.entry(reported.fault).or_default() += 1;
        }
        let mut times: Vec<_> =
            times.into_iter().map(|(fault, times)| format!("{times} {fault:?}")).collect();
        times.sort();
        let reported = if times.is_empty() { "nothing".to_owned() } else { times.join(", ") };
        format!("received {}, reported errors: {reported}", self.counts())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn run(reflector: Arc<Reflector<ConfigMap>>, log: Arc<Mutex<HandlerLog>>) {
    let ended = reflector.run().await;
    log.lock().fault(format!("the reflector ended: {ended}"));
}

/// Applies every item to the store, and records its changes and its errors in `log`.
async fn consume(fifo: Arc<Queue>, log: Arc<Mutex<HandlerLog>>) {
    while let Ok(mut item) = fifo.pop_async().await {
        let key = item.key().to_owned();
        if let Err(error) = item.apply(|change| log.lock().record(&key, (&change).into())) {
            log.lock().fault(format!("{key} was not applied: {}", error_chain(&error)));
        }
        item.done();
    }
}
