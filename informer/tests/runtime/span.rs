//! In what span a reconcile is.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use deltafifo_informer::runtime::controller::Action;
use parking_lot::Mutex;
use tokio::task::yield_now;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::rig::{controller, map, poll, server};

/// Notes the span of each event of this file.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

/// A span, as `name field=value`.
struct Shown(String);

impl Visit for Shown {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut shown = Shown(attributes.metadata().name().to_owned());
        attributes.record(&mut shown);
        context.span(id).expect("it is new").extensions_mut().insert(shown);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() == module_path!() {
            let span = context.event_span(event);
            let shown = span.and_then(|span| span.extensions().get::<Shown>().map(|shown| shown.0.clone()));
            self.0.lock().push(shown.unwrap_or_default());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_reconciler_logs_says_of_which_object() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let mut polled = poll(controller(&server), |_, _| {
        tracing::info!("it is called");
        async {
            yield_now().await;
            tracing::info!("it goes on");
            Ok(Action::await_change())
        }
    });
    // Before anybody listens: else a test beside this one could be the first to come to that span, and have it that nobody does.
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    let log = Log::default();
    let _listens = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    server.apply(map("a", "2")).unwrap();
    assert_eq!(polled.next().await, "a");
    assert_eq!(*log.0.lock(), ["reconciling object object.ref=ConfigMap.v1./a.shop"; 2]);
}
