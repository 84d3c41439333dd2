//! The test kit beside the real API server: both get one list of requests, some written by hand and
//! some recorded from clients. Their answers must have the same code, and must agree in the whole
//! body, in the part that the test kit sends, or in kind and reason. `kubectl` also runs with the
//! test kit alone.

mod answer;
mod commands;
mod edges;
mod merges;
mod options;
mod record;
mod recorded;
mod scales;
mod shards;
mod step;
mod traffic;

use std::time::Duration;

use deltafifo::BoxError;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;

use tokio::time::{Instant, sleep};

use crate::wait::POLL;
use answer::{Answer, difference, inequality};
pub use commands::check;
pub use record::record;
use recorded::{DEFINITIONS, WIDGETS, definition};
use scales::{GADGETS, gadgets};
use step::{Comparison, Step};

/// The name of the program of `kubectl`.
pub const KUBECTL: &str = "kubectl";
/// The longest time until the real server serves a new kind.
const DEFINING: Duration = Duration::from_secs(30);

/// A server, and the uids, versions and page tokens of its answers that later requests use.
struct Server {
    client: Client,
    known: Vec<(String, String)>,
}

impl Server {
    fn new(client: Client) -> Self {
        Self { client, known: Vec::new() }
    }

    async fn send(&mut self, step: &Step) -> Result<Answer, BoxError> {
        let (mut path, mut body) = (step.path.clone(), step.body.clone());
        for (name, value) in &self.known {
            path = path.replace(name, value);
            body = body.replace(name, value);
        }
        let mut request = Request::builder()
            .method(step.method.clone())
            .uri(path)
            .header("content-type", &*step.content_type)
            .header("user-agent", "e2e/1");
        if !step.accept.is_empty() {
            request = request.header("accept", &step.accept);
        }
        let request = request.body(Body::from(body.into_bytes()))?;
        let (parts, body) = self.client.send(request).await?.into_parts();
        let answer = Answer::new(parts.status.as_u16(), &body.collect().await?.to_bytes());
        if let Some(name) = &step.name {
            let fields = [("uid", "uid"), ("version", "resourceVersion"), ("continue", "continue")];
            // The last value of a name counts.
            let new = fields.map(|(field, from)| {
                (format!("${{{name}.{field}}}"), answer.metadata(from).to_owned())
            });
            self.known.retain(|(known, _)| new.iter().all(|(name, _)| name != known));
            self.known.extend(new);
        }
        Ok(answer)
    }

    /// Creates the definitions of custom resources.
    async fn define(&mut self) -> Result<(), BoxError> {
        for definition in [definition(), gadgets()] {
            let made = self.send(&Step::post(DEFINITIONS, &definition)).await?;
            if made.code != 201 {
                return Err(format!("a definition was refused: {}", made.body).into());
            }
        }
        Ok(())
    }
}

/// The result of the comparison.
#[derive(Default)]
pub struct Compared {
    /// The number of requests that both servers got.
    pub requests: usize,
    /// The requests with different answers, and how they differ.
    pub differences: Vec<String>,
}

/// Sends all requests to both servers, and compares the answers. Neither server selects by shards.
pub async fn compare(real: Client, kit: Client) -> Result<Compared, BoxError> {
    let (mut real, mut kit) = (Server::new(real), Server::new(kit));
    prepare(&mut real, &mut kit).await?;
    let written = recorded::parts().into_iter().chain(merges::parts()).chain(options::parts());
    let written = written.chain(edges::parts()).chain([shards::ignored()]);
    let written = written.flatten();
    let mut compared = Compared::default();
    compared.send(written.chain(traffic::steps()?), &mut real, &mut kit).await?;
    Ok(compared)
}

/// Sends the requests with `shardSelector` to servers that honour it, and compares the answers.
/// `uncached` answers as a server does for resources that it has in no cache.
pub async fn compare_selectors(
    real: Client,
    kit: Client,
    uncached: Client,
) -> Result<Compared, BoxError> {
    let [mut real, mut kit, mut uncached] = [real, kit, uncached].map(Server::new);
    prepare(&mut real, &mut kit).await?;
    let mut compared = Compared::default();
    compared.send(shards::parts().into_iter().flatten(), &mut real, &mut kit).await?;
    compared.send(shards::events().into_iter(), &mut real, &mut uncached).await?;
    Ok(compared)
}

/// Creates the definitions of custom resources on both servers.
async fn prepare(real: &mut Server, kit: &mut Server) -> Result<(), BoxError> {
    real.define().await?;
    kit.define().await?;
    // The real server needs a moment until it serves a new kind.
    let deadline = Instant::now() + DEFINING;
    for path in [WIDGETS, GADGETS] {
        while real.send(&Step::get(path)).await?.code != 200 {
            if Instant::now() > deadline {
                return Err(format!("{path} is not served after {DEFINING:?}").into());
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

impl Compared {
    async fn send(
        &mut self,
        steps: impl Iterator<Item = Step>,
        real: &mut Server,
        kit: &mut Server,
    ) -> Result<(), BoxError> {
        for step in steps {
            let (expected, actual) = tokio::try_join!(real.send(&step), kit.send(&step))?;
            self.requests += 1;
            if let Some(difference) = differs(&step, &expected, &actual) {
                let Step { method, path, body, .. } = &step;
                self.differences.push(format!("{method} {path} {body}: {difference}"));
            }
        }
        Ok(())
    }

    /// Adds the result of another comparison.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.differences.extend(other.differences);
    }
}

/// Returns how the test kit's answer differs from the real server's.
fn differs(step: &Step, real: &Answer, kit: &Answer) -> Option<String> {
    if real.code != kit.code {
        let (real, kit) =
            (format!("{} {}", real.code, real.body), format!("{} {}", kit.code, kit.body));
        return Some(format!("the code is {real}, and the test kit's {kit}"));
    }
    let found = match step.comparison {
        Comparison::Equal => inequality(&kit.normal(), &real.normal()),
        Comparison::Contained => difference(&kit.normal(), &real.normal()),
        Comparison::Reason if real.kind() == kit.kind() => None,
        Comparison::Reason => Some(format!("the kinds are {:?} and {:?}", kit.kind(), real.kind())),
    };
    found.map(|found| format!("the test kit's answer {found}"))
}
