//! The faults of the network between one machine and the server.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use deltafifo_testkit::status;
use fastrand::Rng;
use kube::core::Status;

use super::super::rig::leases;
use super::message::Kind;

/// The probabilities of faults, and the longest delay of a request or an answer, and of an event.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    delay: Duration,
    event_delay: Duration,
    lost: f64,
    unanswered: f64,
    refused: f64,
    duplicated: f64,
    cut_watches: f64,
}

/// The outcome of one request.
pub enum Outcome {
    Answered,
    /// The request never arrives.
    Lost,
    /// The request is applied, and the answer is lost.
    Unanswered,
    /// The client gives up the connection before the request arrives.
    Late,
    Refused(Box<Status>),
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => write!(f, "answered"),
            Self::Lost => write!(f, "lost"),
            Self::Unanswered => write!(f, "applied, answer lost"),
            Self::Late => write!(f, "applied after the client has given up"),
            Self::Refused(status) => write!(f, "refused with {}", status.code),
        }
    }
}

/// The fate of one request.
pub struct Fate {
    pub request: Duration,
    pub outcome: Outcome,
    pub answer: Duration,
    /// The time until the client sees that a connection is broken.
    pub broken: Duration,
    /// The time after which a copy of the request arrives, if there is a copy.
    pub copy: Option<Duration>,
    /// The cut of a watch, if there is one: the time until its events stop, and until its
    /// connection breaks after that.
    pub cut: Option<(Duration, Duration)>,
}

fn up_to(random: &mut Rng, most: f64) -> Duration {
    Duration::from_secs_f64(random.f64() * most)
}

impl Weather {
    pub const CALM: Self = Self {
        delay: Duration::from_millis(20),
        event_delay: Duration::from_millis(20),
        lost: 0.0,
        unanswered: 0.0,
        refused: 0.0,
        duplicated: 0.0,
        cut_watches: 0.0,
    };

    /// Cuts the machine off: every request is lost, and open watches are cut.
    pub const CUT: Self = Self { lost: 1.0, cut_watches: 1.0, ..Self::CALM };

    pub fn random(random: &mut Rng) -> Self {
        let mut up_to = |most: f64| if random.bool() { random.f64() * most } else { 0.0 };
        Self {
            delay: Duration::from_secs_f64(0.02 + up_to(1.5)),
            event_delay: Duration::from_secs_f64(0.02 + up_to(6.0)),
            lost: up_to(0.4),
            unanswered: up_to(0.4),
            refused: up_to(0.3),
            duplicated: up_to(0.3),
            cut_watches: up_to(1.0),
        }
    }

    pub fn is_cut(self) -> bool {
        self.lost >= 1.0
    }

    pub fn event_delay(self, random: &mut Rng) -> Duration {
        self.event_delay.mul_f64(random.f64())
    }

    pub fn fate(self, kind: Kind, random: &mut Rng) -> Fate {
        let (request, answer) =
            (self.delay.mul_f64(random.f64()), self.delay.mul_f64(random.f64()));
        // Some connections break at once, and some are silent for long.
        let most = [0.5, 5.0, 30.0][random.usize(..3)];
        let broken = up_to(random, most);
        let mut happens = |probability: f64| random.f64() < probability;
        let (is_lost, is_unanswered) = (happens(self.lost), happens(self.unanswered));
        let (is_refused, is_copied) = (happens(self.refused), happens(self.duplicated));
        let is_cut = happens(self.cut_watches) && kind.is_watch();
        // A request of a reconcile is work until it is answered. One that is applied after its
        // client has given it up is beyond the promises.
        let is_late = kind == Kind::WriteLease && random.bool();
        let outcome = if is_lost {
            Outcome::Lost
        } else if is_unanswered && !kind.is_watch() {
            if is_late { Outcome::Late } else { Outcome::Unanswered }
        } else if is_refused {
            // kube's client repeats other refused requests after delays that no seed decides.
            Outcome::Refused(Box::new(if kind.is_write() && random.bool() {
                status::conflict(&leases(), "simulated")
            } else {
                status::internal_error("simulated")
            }))
        } else {
            Outcome::Answered
        };
        let copy = (is_copied && kind == Kind::WriteLease).then(|| up_to(random, 20.0));
        let cut = is_cut.then(|| (up_to(random, 20.0), up_to(random, 40.0)));
        Fate { request, outcome, answer, broken, copy, cut }
    }
}
