//! The network between the machines and the server, and the server's own clock.
//!
//! A request takes at least as long as a turn of the machines, so what a machine sends in a turn
//! has no effect on the others in that turn, in whatever order they run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo::locks::Mutex;
use deltafifo_testkit::ApiServer;
use fastrand::Rng;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tower::Service;

use super::history::{Fact, History};
use super::machine::{LocalClock, runtime};
use super::message::{
    Answer, Events, Kind, Outbox, Sent, applied, broken, is_of_metadata, refusal, streamed, whole,
};
use super::weather::{Fate, Outcome, Weather};

/// A time after the end of every history.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// A time, and a number that orders the messages of one time.
type Due = (Duration, u64);

/// A request on its way to the server.
struct Arrival {
    machine: usize,
    kind: Kind,
    sent: Duration,
    parts: Parts,
    body: Bytes,
    /// The client, if it gets the answer, and the delay of that.
    answer: Option<(oneshot::Sender<Answer>, Duration)>,
    cut: Option<(Duration, Duration)>,
}

/// A message on its way to a machine.
enum Delivery {
    Answer {
        to: oneshot::Sender<Answer>,
        answer: Answer,
        fact: Option<Box<Fact>>,
    },
    Event {
        to: Events,
        event: io::Result<Bytes>,
    },
    /// The end of a watch, whose sender is dropped.
    End {
        _to: Events,
    },
}

/// An open watch.
struct Watch {
    machine: usize,
    kind: Kind,
    to: Events,
    /// The time when the last event arrives.
    last: Duration,
    /// The time after which no event arrives.
    until: Duration,
    /// The time from `until` until the machine sees that the connection is broken.
    silence: Duration,
}

/// A piece of the body of a watch, or its end (`None`), with the number of the watch and the time.
type Piece = (usize, Duration, Option<io::Result<Bytes>>);

pub struct Network {
    server: ApiServer,
    /// Whether the server may have something to do besides the requests that arrive.
    is_busy: bool,
    pub outbox: Outbox,
    history: History,
    random: Rng,
    runtime: Runtime,
    clock: LocalClock,
    last_number: u64,
    arrivals: BTreeMap<Due, Arrival>,
    deliveries: Vec<BTreeMap<Due, Delivery>>,
    weather: Vec<Weather>,
    /// The open watches, by their numbers.
    watches: BTreeMap<usize, Watch>,
    pieces: Arc<Mutex<Vec<Piece>>>,
    /// The number of requests of each machine and kind since this was last cleared.
    pub sent: BTreeMap<(usize, Kind), usize>,
}

impl Network {
    pub fn new(server: ApiServer, history: History, machines: usize, seed: u64) -> Self {
        let runtime = runtime();
        let clock = runtime.block_on(async { LocalClock::new(Duration::ZERO, 1.0) });
        Self {
            server,
            is_busy: true,
            outbox: Outbox::default(),
            history,
            random: Rng::with_seed(seed),
            runtime,
            clock,
            last_number: 0,
            arrivals: BTreeMap::new(),
            deliveries: (0..machines).map(|_| BTreeMap::new()).collect(),
            weather: vec![Weather::CALM; machines],
            watches: BTreeMap::new(),
            pieces: Arc::default(),
            sent: BTreeMap::new(),
        }
    }

    /// Returns the server, to change something by hand.
    pub fn server(&mut self) -> &ApiServer {
        self.is_busy = true;
        &self.server
    }

    /// Changes the weather of a machine. If it is cut off, its open watches are silent from `at`.
    pub fn set_weather(&mut self, at: Duration, machine: usize, weather: Weather) {
        self.weather[machine] = weather;
        if weather.is_cut() {
            for watch in self.watches.values_mut().filter(|watch| watch.machine == machine) {
                watch.until = watch.until.min(at);
                watch.silence = Duration::from_millis(self.random.u64(..40_000));
            }
        }
    }

    /// Returns the objects of a kind, as the server has them now.
    pub fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let list = async {
            let all = Api::<K>::all(self.server.client());
            all.list(&ListParams::default()).await.expect("the server has no faults").items
        };
        self.runtime.block_on(list)
    }

    /// Returns whether every message arrives before `soon`, no open watch is cut, and each of these
    /// machines watches Leases and objects.
    pub fn is_at_rest(&self, soon: Duration, machines: &[usize]) -> bool {
        let deliveries = self.deliveries.iter().filter_map(BTreeMap::last_key_value);
        let deliveries = deliveries.map(|(due, _)| due);
        let mut last =
            self.arrivals.last_key_value().map(|(due, _)| due).into_iter().chain(deliveries);
        let watches = |machine, kind| {
            self.watches.values().any(|watch| (watch.machine, watch.kind) == (machine, kind))
        };
        last.all(|(at, _)| *at < soon)
            && self.watches.values().all(|watch| watch.until >= NEVER)
            && machines.iter().all(|machine| {
                watches(*machine, Kind::WatchLeases) && watches(*machine, Kind::WatchObjects)
            })
    }

    /// Lets the server process the requests that arrive before `end`. Without any, its own time
    /// stands still, which delays nothing but bookmarks.
    pub fn serve_until(&mut self, end: Duration) {
        while let Some(entry) = self.arrivals.first_entry()
            && entry.key().0 < end
        {
            let ((at, _), arrival) = entry.remove_entry();
            self.run_until(at);
            self.serve(at, arrival);
            self.is_busy = true;
        }
        if std::mem::take(&mut self.is_busy) {
            self.run_until(end);
        }
    }

    fn run_until(&mut self, at: Duration) {
        self.runtime.block_on(self.clock.run_until(at));
        let pieces = std::mem::take(&mut *self.pieces.lock());
        for (watch, at, piece) in pieces {
            self.deliver_piece(watch, at, piece);
        }
    }

    /// Returns the time of the next delivery to a machine, if that is before `end`.
    pub fn next_delivery(&self, machine: usize, end: Duration) -> Option<Duration> {
        let ((at, _), _) = self.deliveries[machine].first_key_value()?;
        Some(*at).filter(|at| *at < end)
    }

    /// Delivers the next message to a machine, at the time `now`.
    pub fn deliver(&mut self, machine: usize, now: Duration) {
        let Some((_, delivery)) = self.deliveries[machine].pop_first() else { return };
        // Nothing is delivered to a process that was killed.
        match delivery {
            Delivery::Answer { to, answer, fact } => {
                if to.send(answer).is_ok()
                    && let Some(fact) = fact
                {
                    self.history.record(now, *fact);
                }
            }
            Delivery::Event { to, event } => _ = to.send(event),
            Delivery::End { .. } => {}
        }
    }

    /// Takes the requests that the machines have sent in the turn that ends at `end`.
    pub fn collect(&mut self, end: Duration) {
        let mut sent = std::mem::take(&mut *self.outbox.lock());
        sent.sort_by_cached_key(Sent::order);
        for sent in sent {
            if let Some(work) = sent.work() {
                self.history.record(sent.at, work);
            }
            *self.sent.entry((sent.machine, sent.kind)).or_default() += 1;
            self.post(sent, end);
        }
    }

    /// Decides what happens to a request that was sent in the turn that ends at `end`.
    fn post(&mut self, sent: Sent, end: Duration) {
        let Sent { at, machine, kind, parts, body, answer: to } = sent;
        let fate = self.weather[machine].fate(kind, &mut self.random);
        let Fate { request, outcome, answer: back, broken: breaks, copy, cut } = fate;
        let note = format!("{machine} sends {} {}: {outcome}", parts.method, parts.uri.path());
        self.history.note(at, note);
        let arrives = end.max(at + request);
        let arrival = |answer| {
            let (parts, body) = (parts.clone(), body.clone());
            Arrival { machine, kind, sent: at, parts, body, answer, cut }
        };
        if let Some(after) = copy {
            self.arrive(arrives + after, arrival(None));
        }
        let (at, answer) = match outcome {
            Outcome::Answered => return self.arrive(arrives, arrival(Some((to, back)))),
            Outcome::Refused(status) => (arrives + back, Ok(refusal(&status))),
            Outcome::Lost => (end.max(at + breaks), Err(broken())),
            Outcome::Unanswered => {
                self.arrive(arrives, arrival(None));
                (arrives + breaks, Err(broken()))
            }
            Outcome::Late => {
                self.arrive(arrives + breaks + back, arrival(None));
                (end.max(at + breaks), Err(broken()))
            }
        };
        self.send(at, machine, Delivery::Answer { to, answer, fact: None });
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn arrive(&mut self, at: Duration, arrival: Arrival) {
        let number = self.number();
        self.arrivals.insert((at, number), arrival);
    }

    fn send(&mut self, at: Duration, machine: usize, delivery: Delivery) {
        let number = self.number();
        self.deliveries[machine].insert((at, number), delivery);
    }

    /// Lets the server process a request now.
    fn serve(&mut self, now: Duration, arrival: Arrival) {
        let Arrival { machine, kind, sent, parts, body, answer, cut } = arrival;
        let is_list = kind == Kind::ListObjects && is_of_metadata(&parts);
        let request = Request::from_parts(parts, Full::new(body));
        let mut server = self.server.clone();
        let (head, body) = self.runtime.block_on(async {
            let answer = server.call(request).await.expect("the server has no faults");
            let (head, body) = answer.into_parts();
            if kind.is_watch() {
                return (head, Err(body));
            }
            (head, Ok(body.collect().await.expect("the body is complete").to_bytes()))
        });
        let fact = match &body {
            Ok(body) if kind.is_write() && head.status.is_success() => {
                applied(machine, kind, sent, body)
            }
            _ => None,
        };
        if let Some(fact) = &fact {
            self.history.record(now, fact.clone());
        }
        let Some((to, delay)) = answer else { return };
        let answered = match fact {
            Some(Fact::Applied { tenure, object, version }) => {
                Some(Fact::Answered { tenure, object, version })
            }
            _ if is_list && head.status.is_success() => Some(Fact::Listed { machine, at: now }),
            _ => None,
        };
        let body = match body {
            Ok(body) => whole(body),
            Err(body) => {
                let (events, received) = mpsc::unbounded_channel();
                self.watch((machine, kind), now + delay, cut, events, body);
                streamed(received)
            }
        };
        let answer = Ok(Response::from_parts(head, body));
        self.send(
            now + delay,
            machine,
            Delivery::Answer { to, answer, fact: answered.map(Box::new) },
        );
    }

    /// Reads the body of a watch until the machine gives it up.
    fn watch(
        &mut self,
        (machine, kind): (usize, Kind),
        opens: Duration,
        cut: Option<(Duration, Duration)>,
        to: Events,
        mut body: deltafifo_testkit::Body,
    ) {
        let number = usize::try_from(self.number()).expect("a history is short");
        let (after, silence) = cut.unwrap_or((NEVER, Duration::ZERO));
        let until = opens + after;
        let (pieces, clock, is_open) = (Arc::clone(&self.pieces), self.clock, to.clone());
        self.watches.insert(number, Watch { machine, kind, to, last: opens, until, silence });
        self.runtime.spawn(async move {
            loop {
                let frame = tokio::select! {
                    biased;
                    () = is_open.closed() => None,
                    frame = body.frame() => frame,
                };
                let piece = frame.map(|frame| {
                    frame.map(|frame| frame.into_data().expect("a watch has no trailers"))
                });
                let is_last = !matches!(piece, Some(Ok(_)));
                pieces.lock().push((number, clock.now(), piece));
                if is_last {
                    return;
                }
            }
        });
    }

    /// Sends a piece of a watch on its way to the machine.
    fn deliver_piece(&mut self, number: usize, at: Duration, piece: Option<io::Result<Bytes>>) {
        let Some(watch) = self.watches.get_mut(&number) else { return };
        let (machine, to) = (watch.machine, watch.to.clone());
        let delay = self.weather[machine].event_delay(&mut self.random);
        let arrives = watch.last.max(at + delay);
        if arrives > watch.until {
            let breaks = watch.until + watch.silence;
            self.watches.remove(&number);
            let event = Err(broken());
            return self.send(at.max(breaks), machine, Delivery::Event { to, event });
        }
        watch.last = arrives;
        let is_last = !matches!(piece, Some(Ok(_)));
        let delivery = match piece {
            Some(event) => Delivery::Event { to, event },
            None => Delivery::End { _to: to },
        };
        self.send(arrives, machine, delivery);
        if is_last {
            self.watches.remove(&number);
        }
    }
}
