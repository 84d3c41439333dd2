//! A test of the spans in which an informer's work runs. It has a process of its own: tracing
//! caches per process whether a span has subscribers, so a test without a subscriber could disable
//! the spans of this one.

#[allow(dead_code)] // Most of it is for the tests of shared informers.
#[path = "../shared_informer/rig.rs"]
mod rig;

use std::fmt::Write;
use std::sync::Arc;

use deltafifo_informer::shared_informer::HandlerOptions;
use parking_lot::Mutex;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use rig::{Rig, map, next, notes, server};

/// A record of the informer's new spans, each with its name and fields, behind the name of the span
/// around it if there is one, as in `reflector: list how=list from=0`.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {}={value}", field.name()).unwrap();
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("a new span");
        let around = span.parent().map(|parent| format!("{}: ", parent.name())).unwrap_or_default();
        let mut fields = Fields(format!("{around}{}", span.name()));
        attributes.record(&mut fields);
        if span.metadata().target().starts_with("deltafifo_informer") {
            self.0.lock().push(fields.0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_run_in_the_reflectors_span_and_calls_in_the_handlers() {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    tracing::subscriber::set_global_default(subscriber)
        .expect("this test is the only one of its process");
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig =
        Rig::start(server, |informer| informer.name("test").reflector(|it| it.watch_list(false)));
    let named = |name| HandlerOptions::new().name(name);
    let (note, mut seen_on_thread) = notes();
    rig.informer.add_event_handler_with(named("thread"), note).unwrap();
    let (note, mut seen_in_task) = notes();
    let in_task = move |received| {
        note(received);
        async {}
    };
    rig.informer.add_async_handler(named("task"), in_task).unwrap();
    for received in [&mut seen_on_thread, &mut seen_in_task] {
        received.next(1).await;
    }
    rig.server.wait_for_watchers(1).await;
    next(&mut rig.subscribe(named("stream")), 1).await;

    let of = "resource=configmaps.v1 namespace=";
    let mut expected = vec![
        format!("reflector name=test {of}"),
        "reflector: list how=list from=0".to_owned(),
        format!("reflector: watch from={}", rig.server.version()),
        format!("informer name=test {of}"),
        // A stream runs no code but its owner's.
        format!("handler informer=test {of} handler=stream"),
    ];
    for handler in ["thread", "task"] {
        expected.push(format!("handler informer=test {of} handler={handler}"));
        expected.push("handler: call notifications=1".to_owned());
    }
    expected.sort();
    let mut all = spans.0.lock().clone();
    all.sort();
    assert_eq!(all, expected);
}
