//! Logs: `tracing` events as JSON lines with upstream's keys, or as text on a terminal (spec 40
//! §7.6).
//!
//! Conventions of fields, beside those of `tracing`:
//!
//! ```text
//! NodeClaim = name             a name with a capital is an object: {"name": …}, and "ns/name" has a
//!                              namespace too
//! error = &e as &dyn Error     the text, and the values that a Trouble in its chain carries
//! nodes = ?json(&list)         any value as JSON
//! ```
//!
//! The span `reconcile` of the harness gives each record inside it the controller, the object and
//! the id of the reconcile.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::clock::Clock;
use crate::harness::with_current;
use crate::options::{LogLevel, Options};

mod fields;
mod output;
mod sample;
#[cfg(test)]
mod tests;

pub use fields::{Json, Said, json};
pub use output::OutputError;

use fields::{Fields, Line};
use output::Output;
use sample::Sampler;

/// Our own crates. Of others only warnings are logged, and these at debug only: what goes wrong in
/// them comes back to us as an error, and we tell it once, with the object and the cause.
const OURS: &str = "karpenter";

/// How to log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The least level.
    pub level: LogLevel,
    /// Where records go: stdout, stderr and files.
    pub output_paths: Vec<String>,
    /// Where failures of logging go.
    pub error_output_paths: Vec<String>,
    /// The revision that was built; none if nobody knows.
    pub commit: Option<String>,
}

impl LogConfig {
    /// What the options say.
    pub fn new(options: &Options, commit: Option<String>) -> Self {
        Self {
            level: options.log_level,
            output_paths: options.log_output_paths.clone(),
            error_output_paths: options.log_error_output_paths.clone(),
            commit,
        }
    }
}

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// An output cannot be used.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Somebody logs already.
    #[error("logs are set up twice")]
    Twice,
}

/// Logs from now on, for the whole process.
pub fn install(config: &LogConfig, clock: Arc<dyn Clock>) -> Result<(), TelemetryError> {
    let output = Output::open(&config.output_paths, &config.error_output_paths)?;
    let subscriber = subscriber(config, clock, output);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::Twice)
}

fn subscriber(
    config: &LogConfig,
    clock: Arc<dyn Clock>,
    output: Output,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::registry().with(Logs {
        level: config.level,
        commit: config.commit.clone(),
        clock,
        sink: Mutex::new(Sink { sampler: Sampler::default(), output }),
    })
}

struct Logs {
    level: LogLevel,
    commit: Option<String>,
    clock: Arc<dyn Clock>,
    sink: Mutex<Sink>,
}

struct Sink {
    sampler: Sampler,
    output: Output,
}

impl Logs {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = metadata.target().starts_with(OURS);
        // Spans carry what records inside them say, whatever their own level.
        if metadata.is_span() {
            return is_ours;
        }
        let least = match (self.level, is_ours) {
            (LogLevel::Debug, true) => Level::DEBUG,
            (LogLevel::Info, true) => Level::INFO,
            (LogLevel::Error, true) => Level::ERROR,
            (LogLevel::Debug, false) => Level::WARN,
            (LogLevel::Info | LogLevel::Error, false) => return false,
        };
        *metadata.level() <= least
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Logs {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let now = self.clock.now();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if !sink.sampler.admits(*event.metadata().level(), fields.message(), now) {
            return;
        }
        let mut line = Line::new(event.metadata(), now, self.commit.as_deref());
        if self.level == LogLevel::Debug {
            line.caller(event.metadata());
        }
        if let Some(reconcile) = with_current(Fields::of_reconcile) {
            line.context(&reconcile);
        }
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                line.context(of_span);
            }
        }
        line.fields(fields);
        sink.output.write(&line);
    }
}
