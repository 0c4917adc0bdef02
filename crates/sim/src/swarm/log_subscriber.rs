//! Receives what the product logs about its commands. Only the log reports which nodes a command
//! removes together, and which replacements it waits for.
//!
//! A world runs on one thread, so a log line of this thread is the world's own. The subscriber that
//! was installed before still gets what it wants.

use std::collections::BTreeMap;
use std::fmt;

use tracing::dispatcher::{self, DefaultGuard};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// The log target of lines about commands.
const TARGET: &str = "karpenter_controllers::disruptor";

/// A log line: its message and its fields.
#[derive(Debug, Default)]
pub(super) struct LogLine {
    pub(super) message: String,
    fields: BTreeMap<&'static str, String>,
}

impl LogLine {
    #[cfg(test)]
    pub(super) fn new(message: &str, fields: &[(&'static str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Self { message: message.to_owned(), fields }
    }

    /// The text of a field; empty if there is none.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// Calls the handler with this thread's log lines until the guard is dropped.
pub(super) fn subscribe(handler: impl Fn(&LogLine) + Send + Sync + 'static) -> DefaultGuard {
    let before = dispatcher::get_default(Clone::clone);
    dispatcher::set_default(&Dispatch::new(LogSubscriber { before, handler: Box::new(handler) }))
}

struct LogSubscriber {
    before: Dispatch,
    handler: Box<dyn Fn(&LogLine) + Send + Sync>,
}

fn is_disruptor_event(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && metadata.target().starts_with(TARGET)
}

impl Subscriber for LogSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_disruptor_event(metadata) {
            return Interest::sometimes();
        }
        self.before.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_disruptor_event(metadata) || self.before.enabled(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        if is_disruptor_event(event.metadata()) {
            let mut line = LogLine::default();
            event.record(&mut line);
            (self.handler)(&line);
        }
        if self.before.enabled(event.metadata()) {
            self.before.event(event);
        }
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.before.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.before.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.before.record_follows_from(span, follows);
    }

    fn enter(&self, span: &Id) {
        self.before.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.before.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.before.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.before.try_close(id)
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.fields.insert(field.name(), text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}
