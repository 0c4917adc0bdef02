//! What the controllers decide about nodes that are there, told in the timeline.
//!
//! Commands of disruption are not objects of the API, so their log is listened to: it says for what
//! reason which nodes go, how many come for them, and what that saves.

use std::fmt::Debug;
use std::sync::Arc;

use karpenter_operator::clock::Clock;
use karpenter_sim::timeline::{Subject, Timeline};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry;

/// The line of a command that begins.
const MESSAGE: &str = "disrupting node(s)";

/// Tells the timeline of decisions, as long as what it returns is kept, on this thread.
pub(super) fn listen(timeline: &Timeline, clock: &Arc<dyn Clock>) -> impl Sized {
    let listener = Listener { timeline: timeline.clone(), clock: clock.clone() };
    tracing::subscriber::set_default(registry().with(listener))
}

#[derive(Debug)]
struct Listener {
    timeline: Timeline,
    clock: Arc<dyn Clock>,
}

impl<S: Subscriber> Layer<S> for Listener {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_event() && metadata.target().starts_with("karpenter_controllers::disruptor")
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        if line.message == MESSAGE {
            self.timeline.add(self.clock.now(), Subject::Plan, &without_id(&line.command));
        }
    }
}

#[derive(Debug, Default)]
struct Line {
    message: String,
    command: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "command" {
            value.clone_into(&mut self.command);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
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
    use jiff::Timestamp;
    use karpenter_operator::clock::TokioClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn commands_come_into_the_timeline() {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let timeline = Timeline::new(Timestamp::UNIX_EPOCH);
        let _listening = listen(&timeline, &clock);
        let command =
            "Drifted/0-1: replace: nodepools=[a]: [n] -> [1 replacement] (savings: $0.00)";
        tracing::info!(target: "karpenter_controllers::disruptor::start", command, "{MESSAGE}");
        tracing::info!(target: "karpenter_controllers::disruptor::start", command, "other");
        let told: Vec<String> = timeline.since(0).iter().map(ToString::to_string).collect();
        let expected = "00:00:00  plan  Drifted: replace: nodepools=[a]: [n] -> [1 replacement] (savings: $0.00)";
        assert_eq!(told, [expected]);
    }
}
