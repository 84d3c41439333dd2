//! A reflector behind a gate, its queue over a store, a consumer that applies what it pops, and a
//! record of everything delivered and reported.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{BoxError, DeltaFifo, Indexer, KeyFunc, ResourceVersion};
use deltafifo_informer::reflector::{Backoff, ReflectorBuilder};
use deltafifo_informer::{KubeMeta, Reflector, ReflectorError};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::fault::{Fault, Met};
use crate::gate::Gate;
use crate::oracle::{Counts, States, Told, Version, difference, keyed};
use crate::servers::Servers;
use crate::wait::{agreed, until};
use crate::writer::Writer;

/// How long the reflector may take to catch up once the server is available.
const LEARNING: Duration = Duration::from_secs(60);

type Queue = DeltaFifo<ConfigMap, KubeMeta>;

/// A running reflector with its consumer. They stop when this is dropped.
pub struct Rig {
    pub gate: Arc<Gate>,
    reflector: Arc<Reflector<ConfigMap>>,
    fifo: Arc<Queue>,
    told: Arc<Mutex<Told>>,
    met: Arc<Mutex<Vec<Met>>>,
    tasks: [JoinHandle<()>; 2],
}

impl Rig {
    /// Starts a reflector behind `gate`, with the options of `choose`. Its backoff is shorter
    /// than the default.
    pub fn start(
        gate: Gate,
        choose: impl FnOnce(ReflectorBuilder<ConfigMap>) -> ReflectorBuilder<ConfigMap>,
    ) -> Result<Self, BoxError> {
        let (gate, told, met) = (Arc::new(gate), Arc::<Mutex<Told>>::default(), Arc::<Mutex<Vec<Met>>>::default());
        let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
        let fifo: Arc<Queue> = Arc::new(DeltaFifo::over(store).build());
        let errors = met.clone();
        let builder = Reflector::builder(gate.clone(), fifo.clone())
            .backoff(Backoff::new(Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(120)))
            .on_error(move |error: &ReflectorError| errors.lock().push(Met::of(error)));
        let reflector = Arc::new(choose(builder).build());
        let tasks =
            [tokio::spawn(run(reflector.clone(), told.clone())), tokio::spawn(consume(fifo.clone(), told.clone()))];
        Ok(Self { gate, reflector, fifo, told, met, tasks })
    }

    /// Starts two rigs: one with streamed lists, one with plain ones.
    pub fn both(servers: &Servers) -> Result<[Self; 2], BoxError> {
        let start = |streamed| Self::start(Gate::new(servers.client()), |builder| builder.watch_list(streamed));
        Ok([start(true)?, start(false)?])
    }

    /// Returns the counts of changes delivered so far.
    pub fn counts(&self) -> Counts {
        self.told.lock().counts()
    }

    /// Returns how many objects the handlers know.
    pub fn known(&self) -> usize {
        self.told.lock().live().len()
    }

    /// Returns how often the reflector reported this error.
    pub fn times(&self, fault: Fault) -> usize {
        self.met.lock().iter().filter(|met| met.fault == fault).count()
    }

    /// Returns the version that the reflector has reached.
    pub fn version(&self) -> Version {
        self.reflector.last_sync_resource_version().as_deref().and_then(ResourceVersion::parse)
    }

    /// Waits until the reflector has reached `version`.
    pub async fn reached(&self, version: &str) -> Result<(), BoxError> {
        let wanted = ResourceVersion::parse(version);
        until(&format!("reaching version {version}"), LEARNING, || self.version() >= wanted).await
    }

    /// Waits until this many more changes have been delivered.
    pub async fn told_more(&self, changes: usize) -> Result<(), BoxError> {
        let wanted = self.counts().all() + changes;
        until(&format!("telling {changes} changes more"), LEARNING, || self.counts().all() >= wanted).await
    }

    /// Waits until the reflector, the handlers and the store have what the server has, and judges
    /// all changes delivered on the way.
    pub async fn settled(&self, writer: &Writer) -> Result<(), BoxError> {
        let fresh = agreed(writer, LEARNING, |fresh| self.differs(fresh)).await?;
        let stored: States = self.fifo.store().list().iter().map(|map| keyed(&map.metadata)).collect();
        if let Some(difference) = difference(&stored, &fresh) {
            return Err(format!("the store is not what handlers were told: {difference}").into());
        }
        self.told.lock().judge(&stored, writer.written())
    }

    fn differs(&self, fresh: &States) -> Option<String> {
        let newest = fresh.values().map(|state| &state.version).max().cloned().flatten();
        // A relist delivers its changes before it ends, so the reflector's version may lag behind
        // the handlers.
        let behind = || (self.version() < newest).then(|| format!("the reflector is at {:?}", self.version()));
        difference(self.told.lock().live(), fresh).or_else(behind)
    }

    /// Returns an error if the reflector reported an unexpected error.
    pub fn met_only(&self, expected: impl Fn(Fault) -> bool) -> Result<(), BoxError> {
        match self.met.lock().iter().find(|met| !expected(met.fault)) {
            Some(met) => Err(format!("an error that nothing here brings about: {}", met.text).into()),
            None => Ok(()),
        }
    }

    /// Returns a readable summary of the changes and errors.
    pub fn summary(&self) -> String {
        let mut times = HashMap::<Fault, usize>::new();
        for met in self.met.lock().iter() {
            *times.entry(met.fault).or_default() += 1;
        }
        let mut times: Vec<_> = times.into_iter().map(|(fault, times)| format!("{times} {fault:?}")).collect();
        times.sort();
        let met = if times.is_empty() { "nothing".to_owned() } else { times.join(", ") };
        format!("told {}, met {met}", self.counts())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn run(reflector: Arc<Reflector<ConfigMap>>, told: Arc<Mutex<Told>>) {
    let ended = reflector.run().await;
    told.lock().fault(format!("the reflector ended: {ended}"));
}

/// Applies every change.
async fn consume(fifo: Arc<Queue>, told: Arc<Mutex<Told>>) {
    while let Ok(mut item) = fifo.pop_async().await {
        let key = item.key().to_owned();
        if let Err(error) = item.apply(|change| told.lock().tell(&key, (&change).into())) {
            told.lock().fault(format!("{key} was not applied: {error}"));
        }
        item.done();
    }
}
