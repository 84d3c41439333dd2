//! The network between one candidate and the server: delayed and lost requests and answers, refused
//! and duplicated requests, and watches that are late or cut.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_stream::stream;
use bytes::Bytes;
use deltafifo::locks::Mutex;
use deltafifo_testkit::{ApiServer, status};
use futures_util::future::poll_fn;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::core::Status;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use tower::Service;

use super::super::tests::leases;
use super::log::Log;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The probabilities of faults, and the longest delay of a request, an answer or an event.
#[derive(Clone, Copy)]
pub struct Weather {
    pub delay: Duration,
    pub lost: f64,
    pub unanswered: f64,
    pub refused: f64,
    pub duplicated: f64,
    pub cut_watches: f64,
}

impl Weather {
    pub const CALM: Self = Self {
        delay: Duration::from_millis(20),
        lost: 0.0,
        unanswered: 0.0,
        refused: 0.0,
        duplicated: 0.0,
        cut_watches: 0.0,
    };

    /// Faults that cut the candidate off from the server: every request is lost, and every watch is
    /// cut.
    pub const CUT: Self = Self { lost: 1.0, cut_watches: 1.0, ..Self::CALM };

    pub fn random(random: &mut fastrand::Rng) -> Self {
        let mut up_to = |most: f64| if random.bool() { random.f64() * most } else { 0.0 };
        Self {
            delay: Duration::from_secs_f64(0.02 + up_to(1.5)),
            lost: up_to(0.4),
            unanswered: up_to(0.4),
            refused: up_to(0.3),
            duplicated: up_to(0.3),
            cut_watches: up_to(1.0),
        }
    }
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Watch,
    /// A creation or update of the lease.
    Write,
    /// A request of the work under the lease.
    Work,
}

/// The outcome of one request.
#[derive(Clone)]
enum Outcome {
    Answered,
    /// The request never arrives.
    Lost,
    /// The request is applied, but the answer is lost.
    Unanswered,
    Refused(Box<Status>),
}

#[derive(Clone)]
struct Fate {
    request: Duration,
    outcome: Outcome,
    answer: Duration,
    /// The time until the client sees that a connection is broken.
    broken: Duration,
    /// The time after which a copy of the request arrives; `None` if there is no copy.
    copy: Option<Duration>,
    /// The cut of the watch, if there is one: its events stop after the first duration, and its
    /// connection breaks when the second one has passed as well.
    cut: Option<(Duration, Duration)>,
}

#[derive(Clone)]
pub struct Network {
    server: ApiServer,
    log: Log,
    /// The value that replaces the duration in a lease, if any.
    seconds: Option<u32>,
    state: Arc<Mutex<State>>,
    /// Notified when the candidate is resumed. A `Notify` wakes its waiters in order, unlike a
    /// watch channel, so runs with the same seed are identical.
    resumes: Arc<Notify>,
}

struct State {
    random: fastrand::Rng,
    weather: Weather,
    sent: BTreeMap<Kind, usize>,
    is_paused: bool,
}

impl Network {
    pub fn new(server: &ApiServer, log: &Log, seconds: Option<u32>, seed: u64) -> Self {
        let state = State {
            random: fastrand::Rng::with_seed(seed),
            weather: Weather::CALM,
            sent: BTreeMap::new(),
            is_paused: false,
        };
        Self {
            server: server.clone(),
            log: log.clone(),
            seconds,
            state: Arc::new(Mutex::new(state)),
            resumes: Arc::default(),
        }
    }

    /// Returns a client whose requests go through this network.
    pub fn client(&self) -> Client {
        let network = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            // A request that was sent arrives even if its caller has given it up.
            let sent = tokio::spawn(network.clone().exchange(request));
            async move { sent.await.expect("the network does not panic") }
        });
        Client::new(service, "default")
    }

    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    /// Returns the number of requests of each kind since the last call.
    pub fn take_sent(&self) -> BTreeMap<Kind, usize> {
        std::mem::take(&mut self.state.lock().sent)
    }

    /// Pauses or resumes the candidate. While it is paused, requests, answers and events are
    /// delayed, and the futures in [`run`](Self::run) are not polled.
    pub fn pause(&self, is_paused: bool) {
        self.state.lock().is_paused = is_paused;
        if !is_paused {
            self.resumes.notify_waiters();
        }
    }

    /// Runs a process, except while the candidate is paused.
    pub async fn run<T>(&self, process: impl Future<Output = T>) -> T {
        let mut process = pin!(process);
        loop {
            let polled = poll_fn(|cx| {
                if self.is_paused() {
                    return Poll::Ready(None);
                }
                process.as_mut().poll(cx).map(Some)
            });
            if let Some(output) = polled.await {
                return output;
            }
            self.resumed().await;
        }
    }

    fn is_paused(&self) -> bool {
        self.state.lock().is_paused
    }

    async fn resumed(&self) {
        loop {
            let resumes = self.resumes.notified();
            if !self.is_paused() {
                return;
            }
            resumes.await;
        }
    }

    fn fate(&self, kind: Kind) -> Fate {
        let State { random, weather, sent, .. } = &mut *self.state.lock();
        *sent.entry(kind).or_default() += 1;
        let mut delay = || weather.delay.mul_f64(random.f64());
        let (request, answer) = (delay(), delay());
        let broken = Duration::from_millis(random.u64(..5_000));
        let mut happens = |probability: f64| random.f64() < probability;
        let (is_lost, is_unanswered) = (happens(weather.lost), happens(weather.unanswered));
        let (is_refused, is_copied) = (happens(weather.refused), happens(weather.duplicated));
        let is_cut = kind == Kind::Watch && happens(weather.cut_watches);
        let outcome = if is_lost {
            Outcome::Lost
        } else if is_unanswered && kind != Kind::Watch {
            Outcome::Unanswered
        } else if is_refused {
            Outcome::Refused(Box::new(match random.u8(..3) {
                0 if kind == Kind::Write => status::conflict(&leases(), "counter"),
                0 | 1 => status::too_many_requests(1),
                _ => status::internal_error("simulated"),
            }))
        } else {
            Outcome::Answered
        };
        let copy =
            (is_copied && kind == Kind::Write).then(|| Duration::from_millis(random.u64(..20_000)));
        let cut = is_cut.then(|| {
            let mut time = |most| Duration::from_millis(random.u64(..most));
            (time(20_000), time(15_000))
        });
        let faults = u32::from(!matches!(outcome, Outcome::Answered))
            + u32::from(copy.is_some())
            + u32::from(cut.is_some());
        self.log.count_faults(faults);
        Fate { request, outcome, answer, broken, copy, cut }
    }

    async fn exchange(self, request: Request<kube::client::Body>) -> io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let kind = match parts.method {
            _ if !parts.uri.path().contains("/leases") => Kind::Work,
            Method::GET if is_watch => Kind::Watch,
            Method::GET => Kind::Read,
            _ => Kind::Write,
        };
        let fate = self.fate(kind);
        let body = if kind == Kind::Write { self.with_duration(body) } else { body };
        self.resumed().await;
        sleep(fate.request).await;
        if let Some(delay) = fate.copy {
            let (network, parts, body) = (self.clone(), parts.clone(), body.clone());
            tokio::spawn(async move {
                sleep(delay).await;
                network.arrive(kind, parts, body).await
            });
        }
        let broken = || io::Error::new(io::ErrorKind::ConnectionReset, "simulated");
        let answer = match fate.outcome {
            Outcome::Lost => {
                sleep(fate.broken).await;
                return Err(broken());
            }
            Outcome::Refused(status) => {
                let json = serde_json::to_vec(&*status).expect("a status is JSON");
                let whole = Full::new(Bytes::from(json)).map_err(|never| match never {});
                let response = Response::builder().status(status.code);
                response.body(whole.boxed_unsync()).expect("the code is valid")
            }
            Outcome::Unanswered => {
                self.arrive(kind, parts, body).await?;
                sleep(fate.broken).await;
                return Err(broken());
            }
            Outcome::Answered => {
                let answer = self.arrive(kind, parts, body).await?;
                if kind == Kind::Watch { self.disturbed(answer, fate.cut) } else { answer }
            }
        };
        sleep(fate.answer).await;
        self.resumed().await;
        Ok(answer)
    }

    /// Replaces the duration in a lease.
    fn with_duration(&self, body: Bytes) -> Bytes {
        let Some(seconds) = self.seconds else { return body };
        let mut lease: Value = serde_json::from_slice(&body).expect("a lease is JSON");
        lease["spec"]["leaseDurationSeconds"] = json!(seconds);
        lease.to_string().into()
    }

    /// Lets the server process a request, at once.
    async fn arrive(
        &self,
        kind: Kind,
        parts: http::request::Parts,
        body: Bytes,
    ) -> io::Result<Response<Body>> {
        let request = Request::from_parts(parts, Full::new(body.clone()));
        let answer = self.server.clone().call(request).await?;
        if answer.status().is_success() && kind != Kind::Watch {
            self.log.applied(&self.server, kind, &body);
        }
        Ok(answer.map(BodyExt::boxed_unsync))
    }

    /// Returns the answer to a watch, whose events arrive late, and whose connection breaks if
    /// there is a `cut` ([`Fate::cut`]).
    fn disturbed(
        &self,
        answer: Response<Body>,
        cut: Option<(Duration, Duration)>,
    ) -> Response<Body> {
        let (network, opened) = (self.clone(), Instant::now());
        let never = Duration::from_secs(1_000_000);
        answer.map(|mut body| {
            StreamBody::new(stream! {
                let ends = opened + cut.map_or(never, |(after, _)| after);
                loop {
                    let frame = match timeout_at(ends, body.frame()).await {
                        Ok(Some(frame)) => frame,
                        Ok(None) => return,
                        Err(_) => break,
                    };
                    let delay = {
                        let State { random, weather, .. } = &mut *network.state.lock();
                        weather.delay.mul_f64(random.f64())
                    };
                    sleep(delay).await;
                    network.resumed().await;
                    yield frame;
                }
                sleep(cut.map_or(Duration::ZERO, |(_, silence)| silence)).await;
                yield Err(io::Error::new(io::ErrorKind::ConnectionReset, "simulated"));
            })
            .boxed_unsync()
        })
    }
}
