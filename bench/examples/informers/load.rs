//! The load: small objects in the test kit's API server, and one write after the other on a
//! schedule, whoever keeps up or not.
//!
//! Writes are numbered. Object `n` begins with number `n`, so that write `n` is one of object
//! `n % objects`, and whoever is told of a number knows what it missed of that object, and when
//! that was due.

use std::error::Error;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use hdrhistogram::Histogram;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::{histogram, record};

/// So long after the start nothing is measured.
const WARM_UP: Duration = Duration::from_secs(1);

pub struct Load {
    pub server: ApiServer,
    /// Those that are written to.
    pub objects: u64,
    every: Duration,
    began: OnceLock<Instant>,
}

/// What was written.
pub struct Offered {
    /// How long the server took for it, all in all.
    pub writing: Duration,
    /// How much later than it was due.
    pub late: Histogram<u64>,
}

impl Load {
    /// Objects to be written to, `rate` times a second.
    pub fn new(objects: u64, rate: u32) -> Result<Self, Box<dyn Error>> {
        let server = ApiServer::builder().resource(Resource::config_maps()).build();
        for number in 0..objects {
            server.apply(object(number, objects))?;
        }
        Ok(Self { server, objects, every: Duration::from_secs(1) / rate, began: OnceLock::new() })
    }

    pub fn informer(&self) -> Result<SharedInformer<ConfigMap>, Box<dyn Error>> {
        let source = KubeListerWatcher::new::<ConfigMap>(self.server.client(), &(), None);
        Ok(SharedInformer::builder(source).on_error(|error| eprintln!("{error}")).build()?)
    }

    /// The number after those that are due in so long a time, without what is not measured.
    pub fn end(&self, measured: Duration) -> u64 {
        let writes = (WARM_UP + measured).as_nanos() / self.every.as_nanos();
        self.objects + u64::try_from(writes).expect("a measurement ends some day")
    }

    /// Writes until `is_over`, which is asked before each number. Blocks.
    pub fn offer(
        &self,
        is_over: impl Fn(u64) -> bool,
    ) -> Result<Offered, deltafifo_testkit::Error> {
        self.began.get_or_init(Instant::now);
        let mut offered = Offered { writing: Duration::ZERO, late: histogram() };
        for number in (self.objects..).take_while(|number| !is_over(*number)) {
            let object = object(number, self.objects);
            let due = self.due(number);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let from = Instant::now();
            record(&mut offered.late, from - due);
            self.server.apply(object)?;
            offered.writing += from.elapsed();
        }
        Ok(offered)
    }

    /// Whether something was written.
    pub fn has_begun(&self) -> bool {
        self.began.get().is_some()
    }

    fn due(&self, number: u64) -> Instant {
        let began = *self.began.get().expect("what was written was due");
        began
            + Duration::from_nanos(
                (number - self.objects) * u64::try_from(self.every.as_nanos()).unwrap_or(u64::MAX),
            )
    }

    /// When what was written of an object since a number, up to another, was due. Of what is
    /// measured.
    pub fn due_since(&self, before: u64, number: u64) -> impl Iterator<Item = Instant> {
        let step = usize::try_from(self.objects).expect("objects are in memory");
        let from = self.end(Duration::ZERO);
        (before + self.objects..=number)
            .step_by(step)
            .filter(move |number| *number >= from)
            .map(|number| self.due(number))
    }
}

/// The number that an object was given last, if it is one of those that are written to.
pub fn number(object: &ConfigMap) -> Option<u64> {
    object.data.as_ref()?.get("number")?.parse().ok()
}

/// Its name does not end in a number, or the test kit would look whether it has generated it.
fn object(number: u64, objects: u64) -> Value {
    let place = number % objects;
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "namespace": format!("namespace-{}", place % 10), "name": format!("{place}-live") },
        "data": { "number": number.to_string() },
    })
}
