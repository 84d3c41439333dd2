//! The informers that run in a scenario at the same time as its reflectors: two of this project,
//! one with the queue of deltas by key and one with the in-order queue, and client-go's. Each has a
//! handler that sleeps and one that panics. One oracle judges the notifications of all of them.

mod client_go;
mod ours;
mod sleep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::BoxError;
use parking_lot::Mutex;

use crate::fault::Fault;
use crate::oracle::{Counts, HandlerLog, States, difference};
use crate::scenarios::Setting;
pub use crate::servers::CLIENT_GO;
use crate::servers::client_at;
use crate::wait::agreed;
use crate::writer::Writer;
use client_go::ClientGo;
use ours::OurInformer;

/// The longest time that the slowest handler may take to catch up: client-go waits up to 30 seconds
/// before it retries.
const LEARNING: Duration = Duration::from_secs(240);
/// The name of the handler that does nothing but record its notifications.
const PLAIN: &str = "plain";
/// The name of the handler that sleeps.
const SLEEPS: &str = "sleeps";
/// The name of the handler that panics.
const PANICS: &str = "panics";

/// All informers while they run. Dropping the value stops them.
pub struct Informers {
    ours: [OurInformer; 2],
    client_go: ClientGo,
}

/// The counts of one informer so far.
pub struct Client {
    pub name: &'static str,
    /// The numbers of notifications of the handler [`PLAIN`].
    counts: Counts,
    /// The number of requests for a list, plain or streamed.
    pub full_requests: usize,
}

/// The records of the handlers, by name.
type Handlers = Arc<BTreeMap<&'static str, Mutex<HandlerLog>>>;

fn handlers(names: &[&'static str]) -> Handlers {
    Arc::new(names.iter().map(|name| (*name, Mutex::default())).collect())
}

impl Informers {
    /// Starts all informers. They connect to `port`, on which the API server or a proxy to it
    /// listens.
    pub fn start(setting: &Setting, port: u16) -> Result<Self, BoxError> {
        let ours = |name, in_order| OurInformer::start(name, client_at(port)?, in_order);
        let ours = [ours("by key", false)?, ours("in order", true)?];
        Ok(Self { ours, client_go: ClientGo::start(setting, port)? })
    }

    fn all(&self) -> [(&'static str, &Handlers); 3] {
        let [by_key, in_order] = &self.ours;
        let client_go = (CLIENT_GO, self.client_go.handlers());
        [(by_key.name(), by_key.handlers()), (in_order.name(), in_order.handlers()), client_go]
    }

    /// Returns the counts of each informer so far.
    pub fn clients(&self) -> [Client; 3] {
        let [by_key, in_order] = &self.ours;
        let requests =
            [by_key.full_requests(), in_order.full_requests(), self.client_go.full_requests()];
        let mut requests = requests.into_iter();
        self.all().map(|(name, handlers)| Client {
            name,
            counts: handlers[PLAIN].lock().counts(),
            full_requests: requests.next().unwrap_or_default(),
        })
    }

    /// Waits until every handler and every store has the server's state, and then judges all
    /// notifications so far.
    pub async fn settled(&mut self, writer: &Writer) -> Result<(), BoxError> {
        self.agreed(writer).await.map(drop)
    }

    /// Waits and judges like [`settled`](Self::settled). Returns the server's state.
    async fn agreed(&mut self, writer: &Writer) -> Result<States, BoxError> {
        let fresh = agreed(writer, LEARNING, |fresh| self.differs(fresh)).await?;
        let [by_key, in_order] = &self.ours;
        let stored = [by_key.stored(), in_order.stored(), self.client_go.stored().await?];
        for ((name, handlers), stored) in self.all().into_iter().zip(stored) {
            if let Some(difference) = difference(&stored, &fresh) {
                return Err(format!(
                    "{name}: the store differs from the objects that handlers know: {difference}"
                )
                .into());
            }
            judge(name, handlers, &stored, writer)?;
        }
        Ok(fresh)
    }

    fn differs(&self, fresh: &States) -> Option<String> {
        let all = self.all();
        let mut handlers = all
            .iter()
            .flat_map(|(name, all)| all.iter().map(move |(handler, log)| (name, handler, log)));
        handlers.find_map(|(name, handler, log)| {
            let log = log.lock();
            let resync = || log.is_in_resync().then(|| "a resync has not ended".to_owned());
            let differs = difference(log.live(), fresh).or_else(resync)?;
            Some(format!("{name}, handler {handler}: {differs}"))
        })
    }

    /// Checks that the numbers of notifications of each informer's handler `plain` since `before`
    /// are the expected ones. client-go may also notify of unchanged objects. `expected` takes the
    /// name of the informer.
    pub fn check_received_since(
        &self,
        before: [Client; 3],
        expected: impl Fn(&str) -> Counts,
    ) -> Result<(), BoxError> {
        for (Client { name, counts, .. }, before) in self.clients().into_iter().zip(before) {
            let (mut log, expected) = (counts.since(before.counts), expected(name));
            if name == CLIENT_GO {
                log.unchanged = 0;
            }
            if log != expected {
                return Err(format!(
                    "{name}: received {log} while it was cut off, instead of {expected}"
                )
                .into());
            }
        }
        Ok(())
    }

    /// Makes the sleeping handlers of this project's informers block at their next notification.
    pub fn fall_asleep(&mut self) {
        self.ours.iter_mut().for_each(OurInformer::fall_asleep);
    }

    /// Wakes the handlers that [`fall_asleep`](Self::fall_asleep) blocked. After they have caught
    /// up, checks that their buffers left out only the changes that their policies allow.
    pub async fn wake_up(&mut self, writer: &Writer) -> Result<(), BoxError> {
        self.ours.iter_mut().for_each(OurInformer::wake_up);
        self.settled(writer).await?;
        self.ours.iter().try_for_each(OurInformer::check_buffers)
    }

    /// Waits until everything is delivered, and then stops the informers and their handlers.
    /// Returns a readable summary, or an error if a notification broke a rule, or if one of this
    /// project's informers reported an unexpected error.
    pub async fn end(
        mut self,
        writer: &Writer,
        expected: impl Fn(Fault) -> bool,
    ) -> Result<String, BoxError> {
        let fresh = self.agreed(writer).await?;
        let all = self.all().map(|(name, handlers)| (name, handlers.clone()));
        let summaries = self.clients().map(|Client { name, counts, full_requests }| {
            format!("{name}: received {counts}, requested all objects {full_requests} times")
        });
        for ours in self.ours {
            ours.stop(&expected).await?;
        }
        self.client_go.stop().await?;
        // Check also the notifications that were delivered since the informers settled.
        for (name, handlers) in all {
            judge(name, &handlers, &fresh, writer)?;
        }
        Ok(format!("informers {}", summaries.join("; ")))
    }
}

/// Returns an error if the notifications of any handler of the informer `name` break a rule.
/// `stored` is the server's state.
fn judge(
    name: &str,
    handlers: &Handlers,
    stored: &States,
    writer: &Writer,
) -> Result<(), BoxError> {
    for (handler, log) in handlers.iter() {
        let judged = log.lock().judge(stored, writer.written());
        judged.map_err(|error| format!("{name}, handler {handler}: {error}"))?;
    }
    Ok(())
}
