//! Tests of log records: keys, levels, fields, sampling and outputs.

use std::error::Error;

use jiff::Timestamp;
use serde_json::{Value, json as value};
use tracing::{debug, error, info, info_span, trace, warn};

use super::*;
use crate::clock::TokioClock;
use crate::harness::{
    Controller, Harness, NoopObserver, RateLimit, Reconcile, ReconcileError, ReconcileResult,
    Shutdown, WorkQueue,
};
use crate::rng::SeededRng;
use crate::watch::ObjectKey;

/// A clock that always returns the same time.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn now(&self) -> Timestamp {
        "2026-11-01T10:00:00.0421Z".parse().unwrap()
    }

    fn sleep(&self, _: std::time::Duration) -> futures_util::future::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Sets the subscriber of this thread until the result is dropped.
///
/// With one dispatcher alone, `tracing` evaluates a call site for the thread that reaches it first.
/// That may be the thread of a test without subscriber, so a second dispatcher is kept, too.
pub(crate) fn set_subscriber(subscriber: impl Subscriber + Send + Sync) -> impl Sized {
    let other = tracing::Dispatch::new(tracing_subscriber::registry());
    (tracing::subscriber::set_default(subscriber), other)
}

fn config(level: LogLevel, commit: Option<&str>) -> LogConfig {
    LogConfig {
        level,
        output_paths: Vec::new(),
        error_output_paths: Vec::new(),
        commit: commit.map(str::to_owned),
    }
}

/// Returns the records that the function logs.
fn logged_records(level: LogLevel, commit: Option<&str>, log: impl FnOnce()) -> Vec<Value> {
    let config = config(level, commit);
    let (output, memory) = LogOutput::memory();
    tracing::subscriber::with_default(subscriber(&config, Arc::new(FixedClock), output), log);
    let text = String::from_utf8(memory.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_log_record_has_upstream_keys_in_order() {
    let records = logged_records(LogLevel::Info, Some("1a2b3c4-dirty"), || {
        info!(NodePool = "general", nodes = 3, "computed new nodeclaim(s)");
    });
    assert_eq!(
        serde_json::to_string(&records).unwrap(),
        r#"[{"level":"INFO","time":"2026-11-01T10:00:00.042Z","logger":"controller","message":"computed new nodeclaim(s)","commit":"1a2b3c4-dirty","NodePool":{"name":"general"},"nodes":3}]"#
    );
}

#[test]
fn log_records_of_a_reconcile_have_its_context() {
    let records = logged_records(LogLevel::Info, None, || {
        let span = tracing::debug_span!(
            "reconcile",
            controller = "nodeclaim.lifecycle",
            controllerGroup = "karpenter.sh",
            controllerKind = "NodeClaim",
            namespace = "",
            name = "web-1",
            reconcileID = "7"
        );
        span.in_scope(|| info!("launched nodeclaim"));
        let singleton = tracing::debug_span!(
            "reconcile",
            controller = "provisioner",
            controllerGroup = "",
            controllerKind = "",
            namespace = "",
            name = "",
            reconcileID = "8"
        );
        singleton.in_scope(|| info!(Pod = "default/web", "found provisionable pod(s)"));
    });
    let [first, second] = &records[..] else { panic!("{records:?}") };
    assert_eq!(
        serde_json::to_string(first).unwrap(),
        r#"{"level":"INFO","time":"2026-11-01T10:00:00.042Z","logger":"controller","message":"launched nodeclaim","controller":"nodeclaim.lifecycle","controllerGroup":"karpenter.sh","controllerKind":"NodeClaim","NodeClaim":{"name":"web-1"},"namespace":"","name":"web-1","reconcileID":"7"}"#
    );
    assert_eq!(second["Pod"], value!({"name": "web", "namespace": "default"}));
    assert_eq!((second.get("controllerKind"), &second["reconcileID"]), (None, &value!("8")));
}

/// Logs once, and fails.
struct FailingReconciler;

impl Reconcile for FailingReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        info!(Pod = "default/web", "launched nodeclaim");
        Err(ReconcileError::new("no"))
    }
}

#[tokio::test(start_paused = true)]
async fn log_records_of_the_harness_have_the_fields_of_its_span() {
    let (output, memory) = LogOutput::memory();
    let subscriber = subscriber(&config(LogLevel::Info, None), Arc::new(FixedClock), output);
    let _logging = set_subscriber(subscriber);
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let harness = Harness {
        clock: clock.clone(),
        rng: Arc::new(SeededRng::new(1)),
        observer: Arc::new(NoopObserver),
        shutdown: Shutdown::new(),
    };
    let queue = WorkQueue::new(&clock, RateLimit::REASONABLE);
    queue.add(ObjectKey::new("shop", "web-1"));
    let controller = Controller::new("nodeclaim.lifecycle", &clock, FailingReconciler)
        .for_kind("karpenter.sh", "NodeClaim")
        .queue(&queue);
    let end = async {
        clock.sleep(std::time::Duration::from_millis(1)).await;
        harness.shutdown.begin();
    };
    tokio::join!(harness.run(controller), end);
    let id = harness.rng.fork("reconcile ids").fork("nodeclaim.lifecycle").u128();
    let line = |level: &str, message: &str, field: &str| {
        format!(
            r#"{{"level":"{level}","time":"2026-11-01T10:00:00.042Z","logger":"controller","message":"{message}","controller":"nodeclaim.lifecycle","controllerGroup":"karpenter.sh","controllerKind":"NodeClaim","NodeClaim":{{"name":"web-1","namespace":"shop"}},"namespace":"shop","name":"web-1","reconcileID":"{id:032x}",{field}}}"#
        ) + "\n"
    };
    let launched = r#""Pod":{"name":"web","namespace":"default"}"#;
    let wanted = line("INFO", "launched nodeclaim", launched)
        + &line("ERROR", "Reconciler error", r#""error":"no""#);
    assert_eq!(String::from_utf8(memory.lock().unwrap().clone()).unwrap(), wanted);
}

#[test]
fn records_below_the_configured_level_are_dropped() {
    let all = || {
        trace!("trace");
        debug!("debug");
        info!("info");
        warn!("warn");
        error!("error");
    };
    for (level, wanted) in [
        (LogLevel::Debug, &["debug", "info", "warn", "error"][..]),
        (LogLevel::Info, &["info", "warn", "error"]),
        (LogLevel::Error, &["error"]),
    ] {
        let records = logged_records(level, None, all);
        let messages: Vec<_> = records.iter().map(|r| r["message"].as_str().unwrap()).collect();
        assert_eq!(messages, wanted, "{level:?}");
    }
}

#[test]
fn records_of_other_crates_are_logged_at_debug_level_only() {
    let all = || {
        info!(target: "hyper", "info of others");
        warn!(target: "kube_runtime::watcher", "warn of others");
        // The client repeats this error while the API server is out of reach.
        error!(target: "kube_client::client::builder", "failed with error client error (Connect)");
        error!("cannot list or watch");
    };
    let of_others = ["warn of others", "failed with error client error (Connect)"];
    for (level, wanted) in [
        (LogLevel::Debug, &[of_others[0], of_others[1], "cannot list or watch"][..]),
        (LogLevel::Info, &["cannot list or watch"]),
        (LogLevel::Error, &["cannot list or watch"]),
    ] {
        let records = logged_records(level, None, all);
        let messages: Vec<_> = records.iter().map(|r| r["message"].as_str().unwrap()).collect();
        assert_eq!(messages, wanted, "{level:?}");
    }
}

#[test]
fn the_caller_is_logged_at_debug_level_only() {
    let records = logged_records(LogLevel::Debug, None, || info!("text"));
    let caller = records[0]["caller"].as_str().unwrap();
    assert!(caller.starts_with("telemetry/tests.rs:"), "{caller}");
    assert_eq!(logged_records(LogLevel::Info, None, || info!("text"))[0].get("caller"), None);
}

#[test]
fn log_records_contain_the_fields_of_their_error() {
    let records = logged_records(LogLevel::Info, None, || {
        let inner = ReconcileError::with_context("creating fleet", "no subnet")
            .with_field("NodeClaim", "web-1")
            .with_field("zone", "b");
        let outer = ReconcileError::with_context("launching", inner)
            .with_field("zone", "a")
            .with_field("id", "1");
        error!(error = &outer as &(dyn Error + 'static), "Reconciler error");
    });
    let record = &records[0];
    assert_eq!(
        record["error"],
        "launching, creating fleet, no subnet (NodeClaim=web-1, zone=b) (id=1, zone=a)"
    );
    assert_eq!(record["NodeClaim"], value!({"name": "web-1"}));
    assert_eq!((&record["id"], &record["zones"]), (&value!("1"), &value!(["a", "b"])));
    assert_eq!(record.get("zone"), None);
}

#[test]
fn list_fields_are_logged_as_json() {
    let records = logged_records(LogLevel::Info, None, || {
        info!("disrupted-nodes" = ?json(&value!([{"Node": {"name": "a"}}])), "disrupting node(s)");
    });
    assert_eq!(records[0]["disrupted-nodes"], value!([{"Node": {"name": "a"}}]));
}

#[test]
fn log_layers_receive_fields_and_text() {
    type Row = (String, Option<String>, Option<String>);
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<Row>>>);

    impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Heard {
        fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
            let record = LogRecord::from_event(event, &context);
            let row = (record.to_string(), record.field("Pod"), record.field("count"));
            self.0.lock().unwrap().push(row);
        }
    }

    let heard = Heard::default();
    let layers = tracing_subscriber::registry().with(SpanFieldsLayer).with(heard.clone());
    tracing::subscriber::with_default(layers, || {
        let span = info_span!("reconcile", controller = "provisioner", reconcileID = "7");
        let _entered = span.enter();
        error!(Pod = "default/web", count = 3, error = "no room", "could not schedule pod");
    });
    let words = "could not schedule pod controller=provisioner Pod=default/web count=3 \
                 error=\"no room\"";
    let words = words.to_owned();
    let row = (words, Some("default/web".to_owned()), Some("3".to_owned()));
    assert_eq!(*heard.0.lock().unwrap(), [row]);
}

#[test]
fn many_equal_log_records_are_sampled() {
    let records = logged_records(LogLevel::Info, None, || {
        for n in 0..1000 {
            info!(n, "again");
        }
        info!("other");
    });
    assert_eq!(records.len(), 110);
}

#[test]
fn span_fields_recorded_later_are_logged() {
    let records = logged_records(LogLevel::Info, None, || {
        let span =
            info_span!("work", found = tracing::field::Empty, state = "new", NodeClaim = "a");
        span.record("found", 2).record("state", "old").record("found", 3);
        span.in_scope(|| info!("text"));
    });
    assert_eq!((&records[0]["found"], &records[0]["state"]), (&value!(3), &value!("old")));
    assert_eq!(records[0]["NodeClaim"], value!({"name": "a"}));
}

#[test]
fn terminal_output_has_message_and_essential_fields() {
    let (output, memory) = LogOutput::terminal();
    let config = config(LogLevel::Info, Some("1a2b3c4"));
    tracing::subscriber::with_default(subscriber(&config, Arc::new(FixedClock), output), || {
        let span = tracing::debug_span!(
            "reconcile",
            controller = "nodeclaim.lifecycle",
            controllerGroup = "karpenter.sh",
            controllerKind = "NodeClaim",
            namespace = "",
            name = "web-1",
            reconcileID = "7"
        );
        span.in_scope(|| warn!(Pod = "default/web", why = "two words", n = 3, "waits"));
    });
    let text = String::from_utf8(memory.lock().unwrap().clone()).unwrap();
    assert_eq!(
        text,
        "2026-11-01T10:00:00.042Z WARN  waits controller=nodeclaim.lifecycle NodeClaim=web-1 \
         Pod=default/web why=\"two words\" n=3\n"
    );
}

#[test]
fn an_unopenable_log_output_is_named_in_the_error() {
    let config =
        LogConfig { output_paths: vec!["/no/such/log".to_owned()], ..config(LogLevel::Info, None) };
    let error = install(&config, Arc::new(FixedClock)).unwrap_err().to_string();
    let start = "--log-output-paths: opening log output \"/no/such/log\": ";
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn a_named_pipe_is_refused_as_log_output() {
    let path = std::env::temp_dir().join(format!("karpenter-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let result = LogOutput::open(&[format!("file://{}", path.display())], &[]);
    std::fs::remove_file(&path).unwrap();
    let error = result.err().expect("the open would block").to_string();
    let end = "it is a named pipe, which blocks without a reader";
    assert!(error.starts_with("--log-output-paths: ") && error.ends_with(end), "{error}");
}

#[test]
fn log_records_are_appended_to_files() {
    let path = std::env::temp_dir().join(format!("karpenter-log-{}", std::process::id()));
    std::fs::write(&path, "before\n").unwrap();
    let paths = [format!("file://{}", path.display())];
    let output = LogOutput::open(&paths, &[]).unwrap();
    let config = config(LogLevel::Info, None);
    tracing::subscriber::with_default(subscriber(&config, Arc::new(FixedClock), output), || {
        info!("text");
    });
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.starts_with("before\n{\"level\":\"INFO\"") && text.ends_with("}\n"), "{text}");
}
