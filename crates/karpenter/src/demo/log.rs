//! Forwards log lines of the controllers to the timeline.
//!
//! Disruption commands are not objects of the API, and neither are a pod that no new node would
//! help or a call that fails: the log has the reason, the removed nodes, the number of their
//! replacements and the savings, why pods stay pending, and the errors.

mod deduplication;

use std::sync::{Arc, Mutex, PoisonError};

use karpenter_operator::clock::Clock;
use karpenter_operator::telemetry::{LogRecord, SpanFieldsLayer};
use karpenter_sim::timeline::{Subject, Timeline};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

use self::deduplication::{LogDecision, LogDeduplicator};

/// The target and the message of the line that a command starts with.
const DISRUPTOR_TARGET: &str = "karpenter_controllers::disruptor";
const DISRUPTING_MESSAGE: &str = "disrupting node(s)";
/// The messages about pods that fit on no node, new or old.
const UNSCHEDULABLE_MESSAGES: [&str; 2] = ["could not schedule pod", "could not schedule pod(s)"];
/// The log targets of the product. Those of the simulated world are not forwarded.
const PRODUCT_TARGETS: [&str; 3] =
    ["karpenter_controllers", "karpenter_operator", "karpenter_cluster"];

/// Forwards this thread's log to the timeline until the result is dropped.
pub(super) fn forward_logs(timeline: &Timeline, clock: &Arc<dyn Clock>) -> impl Sized {
    let (timeline, clock) = (timeline.clone(), clock.clone());
    let listener = TimelineLayer { timeline, clock, deduplicator: Mutex::default() };
    tracing::subscriber::set_default(registry().with(SpanFieldsLayer).with(listener))
}

#[derive(Debug)]
struct TimelineLayer {
    timeline: Timeline,
    clock: Arc<dyn Clock>,
    deduplicator: Mutex<LogDeduplicator>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TimelineLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let (level, target) = (metadata.level(), metadata.target());
        let is_problem =
            *level <= Level::WARN && PRODUCT_TARGETS.iter().any(|part| target.starts_with(part));
        // Spans carry the controller and the object of the lines inside them.
        metadata.is_span() || is_problem || target.starts_with(DISRUPTOR_TARGET)
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let record = LogRecord::from_event(event, &context);
        if record.message() == DISRUPTING_MESSAGE {
            let command = record.field("command").unwrap_or_default();
            return self.timeline.add(
                self.clock.now(),
                Subject::Plan,
                &without_command_id(&command),
            );
        }
        match *event.metadata().level() {
            Level::ERROR => self.add_problem(Subject::Failure, &record),
            Level::WARN => self.add_problem(Subject::Warning, &record),
            _ => {}
        }
    }
}

impl TimelineLayer {
    fn add_problem(&self, subject: Subject, record: &LogRecord) {
        let now = self.clock.now();
        let (subject, text) = match unschedulable_text(record) {
            Some(text) => (Subject::Pods, text),
            None => (subject, record.to_string()),
        };
        let admitted = {
            let mut deduplicator = self.deduplicator.lock().unwrap_or_else(PoisonError::into_inner);
            deduplicator.decide(&deduplication_key(record, &text), now)
        };
        let LogDecision::Emit { dropped: left_out } = admitted else { return };
        if left_out > 0 {
            let more = format!("… and {left_out} more of the minute before");
            self.timeline.add(now, Subject::Warning, &more);
        }
        self.timeline.add(now, subject, &text);
    }
}

/// Returns the key by which lines are equal: many objects with one error give one line. Of pods
/// their number counts, not their names.
fn deduplication_key(record: &LogRecord, text: &str) -> String {
    let value = |key| record.field(key).unwrap_or_default();
    match record.field("error") {
        Some(error) => {
            format!("{} {} {} {error}", value("controller"), record.message(), value("count"))
        }
        None => text.to_owned(),
    }
}

/// Returns the line about pods that get no node.
fn unschedulable_text(record: &LogRecord) -> Option<String> {
    if !UNSCHEDULABLE_MESSAGES.contains(&record.message()) {
        return None;
    }
    let pods = record.field("Pods").or_else(|| record.field("Pod"))?;
    Some(format!("{pods}: no new node would help: {}", record.field("error")?))
}

/// Returns the command without its id, which the timeline does not show:
/// `Underutilized: delete: nodepools=[default]: [node-a] (savings: $0.05)`.
fn without_command_id(command: &str) -> String {
    match command.split_once('/').and_then(|(reason, rest)| Some((reason, rest.split_once(": ")?)))
    {
        Some((reason, (_, rest))) => format!("{reason}: {rest}"),
        None => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use karpenter_operator::clock::TokioClock;
    use karpenter_operator::telemetry::json;

    use super::*;

    /// Returns the timeline entries of the lines that the function logs.
    async fn timeline_of(log: impl AsyncFnOnce(&dyn Clock)) -> Vec<String> {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let timeline = Timeline::new(Timestamp::UNIX_EPOCH);
        let _listening = forward_logs(&timeline, &clock);
        log(clock.as_ref()).await;
        timeline.since(0).iter().map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn disruption_commands_are_added_to_the_timeline() {
        let command =
            "Drifted/0-1: replace: nodepools=[a]: [n] -> [1 replacement] (savings: $0.00)";
        let lines = timeline_of(async |_| {
            tracing::info!(target: "karpenter_controllers::disruptor::start", command, "{DISRUPTING_MESSAGE}");
            tracing::info!(target: "karpenter_controllers::disruptor::start", command, "other");
        })
        .await;
        let expected = "00:00:00  plan  Drifted: replace: nodepools=[a]: [n] -> [1 replacement] (savings: $0.00)";
        assert_eq!(lines, [expected]);
    }

    #[tokio::test(start_paused = true)]
    async fn product_warnings_and_errors_are_added_to_the_timeline() {
        let lines = timeline_of(async |_| {
            tracing::warn!(target: "karpenter_operator::events", reason = "x", "event was refused");
            tracing::error!(target: "karpenter_controllers::state", NodeClaim = "a", "no price");
            tracing::info!(target: "karpenter_controllers::state", "fine");
            tracing::error!(target: "karpenter_sim::cloud", "of the world");
            tracing::error!(target: "kube_client", "of others");
        })
        .await;
        let expected =
            ["00:00:00  warn  event was refused reason=x", "00:00:00  fail  no price NodeClaim=a"];
        assert_eq!(lines, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_error_is_added_once_and_again_after_a_pause() {
        let lines = timeline_of(async |clock| {
            for pause in [1, 300, 300, 3600] {
                for name in ["a", "b"] {
                    tracing::error!(target: "karpenter_operator::x", NodeClaim = name, error = "no", "failed");
                }
                clock.sleep(Duration::from_secs(pause)).await;
            }
            tracing::error!(target: "karpenter_operator::x", NodeClaim = "c", error = "no", "failed");
        })
        .await;
        let expected = [
            "00:00:00  fail  failed NodeClaim=a error=no",
            "01:10:01  fail  failed NodeClaim=c error=no",
        ];
        assert_eq!(lines, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn unschedulable_pods_are_added_once_for_each_reason() {
        let refuse = |pods: &str, count: usize, reason: &str| {
            let pods = json(&pods);
            tracing::error!(target: "karpenter_controllers::provisioner", Pods = ?pods, count, error = reason, "could not schedule pod(s)");
        };
        let lines = timeline_of(async |clock| {
            refuse("default/a, default/b", 2, "limits");
            clock.sleep(Duration::from_mins(5)).await;
            refuse("default/b, default/c", 2, "limits");
            refuse("default/a, default/b", 2, "taints");
            tracing::error!(target: "karpenter_controllers::provisioner", Pod = "default/c", error = "limits", "could not schedule pod");
        })
        .await;
        let expected = [
            "00:00:00  pods  default/a, default/b: no new node would help: limits",
            "00:05:00  pods  default/a, default/b: no new node would help: taints",
            "00:05:00  pods  default/c: no new node would help: limits",
        ];
        assert_eq!(lines, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn excess_lines_are_dropped_and_counted() {
        let lines = timeline_of(async |clock| {
            for n in 0..100 {
                tracing::warn!(target: "karpenter_operator::x", n, "flood");
            }
            clock.sleep(Duration::from_mins(1)).await;
            tracing::warn!(target: "karpenter_operator::x", "after it");
        })
        .await;
        assert_eq!(lines.len(), deduplication::LINES_PER_MINUTE + 2);
        let last = &lines[deduplication::LINES_PER_MINUTE..];
        let more =
            format!("… and {} more of the minute before", 100 - deduplication::LINES_PER_MINUTE);
        assert_eq!(
            last,
            [format!("00:01:00  warn  {more}"), "00:01:00  warn  after it".to_owned()]
        );
    }
}
