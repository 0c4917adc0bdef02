//! Tests of terminal errors: when their objects are reconciled again, and which lines are logged.

use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_apiserver::testing::environment::TestEnvironment;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use super::*;
use crate::telemetry::tests::set_subscriber;
use crate::telemetry::{LogRecord, SpanFieldsLayer};
use crate::watch::Informer;

/// A reconciler whose object is valid if it has data.
struct ConfigReconciler {
    informer: Informer<ConfigMap>,
    calls: Arc<AtomicUsize>,
}

impl Reconcile for ConfigReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let is_first = self.calls.fetch_add(1, Ordering::Relaxed) == 0;
        let object = self.informer.get(&key.namespace, &key.name);
        if object.is_some_and(|object| object.data.is_some()) {
            return Ok(Outcome::Done);
        }
        if is_first {
            return Ok(Outcome::RequeueAfter(Duration::from_secs(10)));
        }
        Err(ReconcileError::with_context("reading data", ReconcileError::terminal("no data")))
    }
}

/// Records the log lines.
#[derive(Clone, Default)]
struct LogRecorder(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogRecorder {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target().starts_with("karpenter_operator") {
            self.0.lock().unwrap().push(LogRecord::from_event(event, &context).to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_retried_only_when_the_object_changes() {
    let lines = LogRecorder::default();
    let layers = tracing_subscriber::registry().with(SpanFieldsLayer).with(lines.clone());
    let _logging = set_subscriber(layers);
    let harness = harness();
    let server = karpenter_apiserver::Api::new(Arc::new(TestEnvironment::default()));
    let api: kube::Api<ConfigMap> =
        kube::Api::default_namespaced(kube::Client::new(server.service(), "default"));
    let informer = Informer::shared(api.clone(), &harness.clock);
    let calls: Arc<AtomicUsize> = Arc::default();
    let reconciler = ConfigReconciler { informer: informer.clone(), calls: calls.clone() };
    // The API server creates other ConfigMaps.
    let controller = Controller::new("test", &harness.clock, reconciler)
        .for_kind("", "ConfigMap")
        .watch_if(&informer, |change| change.key.name == "a");
    let tasks = Tasks::new();
    let (runs, watched) = (harness.clone(), informer.clone());
    tasks.spawn("test", async move { runs.run(controller).await });
    tasks.spawn("watch", async move {
        watched.run().await;
    });
    let object = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    let calls_after = async |time: Duration| {
        harness.clock.sleep(time).await;
        calls.load(Ordering::Relaxed)
    };

    assert_eq!(calls_after(Duration::from_secs(1)).await, 1, "requeued after 10 s");
    // The change makes the second call fail. The requeue of the first call is cancelled, too.
    let patch = |patch| Patch::Merge(patch);
    let label = patch(json!({"metadata": {"labels": {"a": "b"}}}));
    api.patch("a", &PatchParams::default(), &label).await.unwrap();
    assert_eq!(calls_after(Duration::from_hours(24)).await, 2, "50 §2.1 step 5: no retry");
    assert_eq!(
        *lines.0.lock().unwrap(),
        ["Reconciler error controller=test ConfigMap=default/a \
          error=\"reading data, terminal error: no data\""],
        "logged once"
    );

    informer.relist();
    assert_eq!(calls_after(Duration::from_hours(1)).await, 2, "a resync is no change");

    let data = patch(json!({"data": {"key": "value"}}));
    api.patch("a", &PatchParams::default(), &data).await.unwrap();
    assert_eq!(calls_after(Duration::from_hours(1)).await, 3, "the object has changed");
    assert_eq!(lines.0.lock().unwrap().len(), 1, "the error is repaired");
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_terminal_reconcile_is_reconciled() {
    let harness = harness();
    let queue = WorkQueue::new(&harness.clock, RateLimit::REASONABLE);
    let key = Arc::new(ObjectKey::new("", "a"));
    queue.add(key.clone());
    assert!(queue.try_dequeue().is_some());
    queue.add(key.clone());
    let result = Err(ReconcileError::terminal("no"));
    assert_eq!(apply_outcome(&queue, &key, result), ReconcileStatus::TerminalError);
    queue.done(&key);
    assert_eq!(queue.len(), 1);
}
