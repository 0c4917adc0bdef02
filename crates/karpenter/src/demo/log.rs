//! What the controllers log, told in the timeline.
//!
//! Commands of disruption are not objects of the API, and neither are a pod that no new node would
//! help or a call that fails: the log says for what reason which nodes go, how many come for them
//! and what that saves, why pods stay pending, and what goes wrong.

mod repeats;

use std::sync::{Arc, Mutex, PoisonError};

use karpenter_operator::clock::Clock;
use karpenter_operator::telemetry::Said;
use karpenter_sim::timeline::{Subject, Timeline};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry;

use self::repeats::{Admitted, Repeats};

/// Where the line of a command that begins comes from, and what it says.
const DISRUPTOR: &str = "karpenter_controllers::disruptor";
const DISRUPTING: &str = "disrupting node(s)";
/// The lines of pods that would fit on no node, new or old.
const REFUSED: [&str; 2] = ["could not schedule pod", "could not schedule pod(s)"];
/// The parts of the product. Those of the world around it are not to be heard.
const PRODUCT: [&str; 3] = ["karpenter_controllers", "karpenter_operator", "karpenter_cluster"];

/// Tells the timeline what is logged, as long as what it returns is kept, on this thread.
pub(super) fn listen(timeline: &Timeline, clock: &Arc<dyn Clock>) -> impl Sized {
    let (timeline, clock) = (timeline.clone(), clock.clone());
    let listener = Listener { timeline, clock, repeats: Mutex::default() };
    tracing::subscriber::set_default(registry().with(listener))
}

#[derive(Debug)]
struct Listener {
    timeline: Timeline,
    clock: Arc<dyn Clock>,
    repeats: Mutex<Repeats>,
}

impl<S: Subscriber> Layer<S> for Listener {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let (level, target) = (metadata.level(), metadata.target());
        let is_trouble =
            *level <= Level::WARN && PRODUCT.iter().any(|part| target.starts_with(part));
        metadata.is_event() && (is_trouble || target.starts_with(DISRUPTOR))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let said = Said::of(event);
        if said.message() == DISRUPTING {
            let command = said.value("command").unwrap_or_default();
            return self.timeline.add(self.clock.now(), Subject::Plan, &without_id(&command));
        }
        match *event.metadata().level() {
            Level::ERROR => self.trouble(Subject::Failure, &said),
            Level::WARN => self.trouble(Subject::Warning, &said),
            _ => {}
        }
    }
}

impl Listener {
    fn trouble(&self, subject: Subject, said: &Said) {
        let now = self.clock.now();
        let (subject, text) = match refusal(said) {
            Some(text) => (Subject::Pods, text),
            None => (subject, said.to_string()),
        };
        let admitted = {
            let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
            repeats.admit(&key(said, &text), now)
        };
        let Admitted::Yes { left_out } = admitted else { return };
        if left_out > 0 {
            let more = format!("… and {left_out} more of the minute before");
            self.timeline.add(now, Subject::Warning, &more);
        }
        self.timeline.add(now, subject, &text);
    }
}

/// What makes a line the same as another: many objects with one trouble are told of once. Of pods
/// their number counts, not which of many they are.
fn key(said: &Said, text: &str) -> String {
    let value = |key| said.value(key).unwrap_or_default();
    match said.value("error") {
        Some(error) => {
            format!("{} {} {} {error}", value("controller"), said.message(), value("count"))
        }
        None => text.to_owned(),
    }
}

/// The words for pods that get no node.
fn refusal(said: &Said) -> Option<String> {
    if !REFUSED.contains(&said.message()) {
        return None;
    }
    let pods = said.value("Pods").or_else(|| said.value("Pod"))?;
    Some(format!("{pods}: no new node would help: {}", said.value("error")?))
}

/// The command without its id, which nobody here has a use for:
/// `Underutilized: delete: nodepools=[default]: [node-a] (savings: $0.05)`.
fn without_id(command: &str) -> String {
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

    /// What the timeline tells of what the function logs.
    async fn told(log: impl AsyncFnOnce(&dyn Clock)) -> Vec<String> {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let timeline = Timeline::new(Timestamp::UNIX_EPOCH);
        let _listening = listen(&timeline, &clock);
        log(clock.as_ref()).await;
        timeline.since(0).iter().map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn commands_come_into_the_timeline() {
        let command =
            "Drifted/0-1: replace: nodepools=[a]: [n] -> [1 replacement] (savings: $0.00)";
        let told = told(async |_| {
            tracing::info!(target: "karpenter_controllers::disruptor::start", command, "{DISRUPTING}");
            tracing::info!(target: "karpenter_controllers::disruptor::start", command, "other");
        })
        .await;
        let expected = "00:00:00  plan  Drifted: replace: nodepools=[a]: [n] -> [1 replacement] (savings: $0.00)";
        assert_eq!(told, [expected]);
    }

    #[tokio::test(start_paused = true)]
    async fn warnings_and_errors_of_the_product_come_into_the_timeline() {
        let told = told(async |_| {
            tracing::warn!(target: "karpenter_operator::events", reason = "x", "event was refused");
            tracing::error!(target: "karpenter_controllers::state", NodeClaim = "a", "no price");
            tracing::info!(target: "karpenter_controllers::state", "fine");
            tracing::error!(target: "karpenter_sim::cloud", "of the world");
            tracing::error!(target: "kube_client", "of others");
        })
        .await;
        let expected =
            ["00:00:00  warn  event was refused reason=x", "00:00:00  fail  no price NodeClaim=a"];
        assert_eq!(told, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_that_lasts_is_told_once_and_again_when_it_comes_back() {
        let told = told(async |clock| {
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
        assert_eq!(told, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_get_no_node_are_told_once_for_each_reason() {
        let refuse = |pods: &str, count: usize, reason: &str| {
            let pods = json(&pods);
            tracing::error!(target: "karpenter_controllers::provisioner", Pods = ?pods, count, error = reason, "could not schedule pod(s)");
        };
        let told = told(async |clock| {
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
        assert_eq!(told, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_counted() {
        let told = told(async |clock| {
            for n in 0..100 {
                tracing::warn!(target: "karpenter_operator::x", n, "flood");
            }
            clock.sleep(Duration::from_mins(1)).await;
            tracing::warn!(target: "karpenter_operator::x", "after it");
        })
        .await;
        assert_eq!(told.len(), repeats::LINES_PER_MINUTE + 2);
        let last = &told[repeats::LINES_PER_MINUTE..];
        let more = format!("… and {} more of the minute before", 100 - repeats::LINES_PER_MINUTE);
        assert_eq!(
            last,
            [format!("00:01:00  warn  {more}"), "00:01:00  warn  after it".to_owned()]
        );
    }
}
