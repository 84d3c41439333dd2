//! Under which spans things happen.

use std::fmt::Write;
use std::sync::Arc;

use deltafifo_informer::shared_informer::HandlerOptions;
use parking_lot::Mutex;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::rig::{Rig, map, next, server};

/// Notes each new span, as `reflector name=test resource=configmaps.v1 namespace=`, behind those around it.
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
        let span = context.span(id).expect("it is new");
        let around = span.parent().map(|parent| format!("{}: ", parent.name())).unwrap_or_default();
        let mut fields = Fields(format!("{around}{}", span.name()));
        attributes.record(&mut fields);
        if span.metadata().target().starts_with("deltafifo_informer") {
            self.0.lock().push(fields.0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_are_in_the_reflectors_and_calls_in_the_handlers() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer.name("test").reflector(|it| it.watch_list(false)));
    let named = |name| HandlerOptions::new().name(name);
    let done = Arc::new(tokio::sync::Notify::new());
    let call = {
        let done = done.clone();
        move |_| {
            let done = done.clone();
            async move { done.notify_one() }
        }
    };
    rig.informer.add_async_handler(named("printer"), call).unwrap();
    done.notified().await;
    rig.server.wait_for_watchers(1).await;
    next(&mut rig.subscribe(named("stream")), 1).await;
    let of = "resource=configmaps.v1 namespace=";
    let mut all = spans.0.lock().clone();
    all.sort();
    all.dedup();
    let list_from = "reflector: list how=list from=0";
    let watch_from = format!("reflector: watch from={}", rig.server.version());
    let mut expected = vec![
        "handler: call notifications=1".to_owned(),
        format!("handler informer=test {of} handler=printer"),
        format!("handler informer=test {of} handler=stream"),
        format!("informer name=test {of}"),
        list_from.to_owned(),
        format!("reflector name=test {of}"),
        watch_from,
    ];
    expected.sort();
    assert_eq!(all, expected);
}
