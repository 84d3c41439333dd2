//! A stage for programs that are compiled twice: their objects, and the lines that they say.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use deltafifo_testkit::Resource;
use kube::api::ApiResource;
use kube::discovery::Scope;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// The time for which a program runs between two reads of its lines. The programs that read their
/// store periodically do so every ten seconds.
const STEP: Duration = Duration::from_millis(10_500);

/// Returns the resource of a built-in kind whose objects are in namespaces.
pub fn built_in<K: kube::Resource<DynamicType = ()>>() -> Resource {
    Resource::built_in(ApiResource::erase::<K>(&()), Scope::Namespaced)
}

/// Returns an object of the namespace `default` with more fields.
pub fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "namespace": "default", "name": name },
    });
    merge(&mut object, fields);
    object
}

/// Returns a node, which is in no namespace, with more fields.
pub fn node(name: &str, fields: Value) -> Value {
    let mut node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": {} });
    merge(&mut node, fields);
    node
}

fn merge(into: &mut Value, fields: Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            for (name, value) in fields {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}

/// Returns a function by which a program says lines, and the receiver of the lines.
pub fn speech() -> (impl Fn(String) + Clone + Send + Sync + 'static, mpsc::UnboundedReceiver<String>)
{
    let (sender, lines) = mpsc::unbounded_channel();
    // If the send fails, the test has ended.
    (move |line| drop(sender.send(line)), lines)
}

/// A running program.
pub struct Stage<'a> {
    /// `None` if the program has ended.
    program: Option<Pin<Box<dyn Future<Output = ()> + 'a>>>,
    lines: mpsc::UnboundedReceiver<String>,
}

impl<'a> Stage<'a> {
    pub fn open(program: impl Future + 'a, lines: mpsc::UnboundedReceiver<String>) -> Self {
        Self { program: Some(Box::pin(async { drop(program.await) })), lines }
    }

    /// Runs the program for some seconds, or until it ends. Returns the lines that it says.
    pub async fn run_for(&mut self, time: Duration) -> Vec<String> {
        if let Some(program) = &mut self.program {
            tokio::select! {
                () = program => self.program = None,
                () = sleep(time) => {}
            }
        }
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }

    /// Runs the program for a step. Returns the lines that it says, sorted and without duplicates.
    pub async fn lines(&mut self) -> Vec<String> {
        let lines: BTreeSet<_> = self.run_for(STEP).await.into_iter().collect();
        lines.into_iter().collect()
    }

    pub fn has_ended(&self) -> bool {
        self.program.is_none()
    }
}
