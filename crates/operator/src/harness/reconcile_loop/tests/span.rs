//! Tests of the span of a reconcile, as any layer of `tracing` receives it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber, info};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use super::*;
use crate::compute::{Blocking, run};
use crate::telemetry::tests::set_subscriber;

/// A layer that knows nothing of this crate: it records spans, and the span of each event.
#[derive(Clone, Default)]
struct SpanRecorder {
    spans: Arc<Mutex<Vec<Fields>>>,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
}

/// The message of an event, and the id of its span.
type RecordedEvent = (String, Option<u64>);

type Fields = BTreeMap<String, String>;

struct FieldReader(Fields);

impl Visit for FieldReader {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanRecorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = FieldReader(Fields::new());
        attributes.record(&mut fields);
        fields.0.insert("span".to_owned(), attributes.metadata().name().to_owned());
        self.spans.lock().unwrap().push(fields.0);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = FieldReader(Fields::new());
        event.record(&mut fields);
        let span = context.event_span(event).map(|span| span.id().into_u64());
        let message = fields.0.remove("message").unwrap_or_default();
        self.events.lock().unwrap().push((message, span));
    }
}

/// Logs before and after a wait, and on another thread.
struct LoggingReconciler(Arc<dyn Clock>);

impl Reconcile for LoggingReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        info!("before");
        self.0.sleep(Duration::from_secs(1)).await;
        info!("after");
        let context = tracing::dispatcher::get_default(Clone::clone);
        run(&Blocking, move || {
            tracing::dispatcher::with_default(&context, || info!("on a thread"));
        })
        .await;
        Ok(Outcome::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn every_reconcile_runs_in_a_span_of_its_own() {
    let recorder = SpanRecorder::default();
    let layers = tracing_subscriber::registry().with(recorder.clone());
    let _recording = set_subscriber(layers);
    let harness = harness();
    let queue = WorkQueue::new(&harness.clock, RateLimit::REASONABLE);
    for name in ["a", "b"] {
        queue.add(ObjectKey::new("shop", name));
    }
    let reconciler = LoggingReconciler(harness.clock.clone());
    let controller = Controller::new("pod.test", &harness.clock, reconciler);
    let controller = controller.for_kind("example.com", "Thing").workers(2).queue(&queue);
    run_for(&harness, controller, 60).await;

    let mut ids = harness.rng.fork("reconcile ids").fork("pod.test");
    let wanted = ["a", "b"].map(|name| {
        let id = format!("{:032x}", ids.u128());
        let fields = [
            ("span", "reconcile"),
            ("controller", "pod.test"),
            ("controllerGroup", "example.com"),
            ("controllerKind", "Thing"),
            ("namespace", "shop"),
            ("name", name),
            ("reconcileID", &id),
        ];
        fields.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    });
    assert_eq!(*recorder.spans.lock().unwrap(), wanted);
    // Both reconciles interleave, and each record is in the span of its reconcile.
    let mut by_span: BTreeMap<Option<u64>, Vec<String>> = BTreeMap::new();
    for (message, span) in recorder.events.lock().unwrap().iter() {
        by_span.entry(*span).or_default().push(message.clone());
    }
    assert_eq!(by_span.len(), 2, "{by_span:?}");
    for (span, messages) in by_span {
        assert!(span.is_some(), "{messages:?}");
        assert_eq!(messages, ["before", "after", "on a thread"]);
    }
}
