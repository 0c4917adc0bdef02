//! Logs: `tracing` events as JSON lines with upstream's keys, or as text on a terminal (spec 40
//! §7.6).
//!
//! Conventions of fields, besides those of `tracing`:
//!
//! ```text
//! NodeClaim = name             a name with a capital is an object: {"name": …}; "ns/name" has a
//!                              namespace too
//! error = &e as &dyn Error     the text, and the fields of a ReconcileError in its chain
//! nodes = ?json(&list)         any value as JSON
//! ```
//!
//! The span `reconcile` of the harness gives each record inside it the controller, the object and
//! the id of the reconcile.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::clock::Clock;
use crate::options::{LogLevel, Options};

mod fields;
mod output;
mod sampler;
mod span_fields;
#[cfg(test)]
pub(crate) mod tests;

pub use fields::{JsonField, LogRecord, json};
pub use output::OutputError;
pub use span_fields::SpanFieldsLayer;

use fields::{LogFields, LogLine};
use output::LogOutput;
use sampler::LogSampler;

/// The name prefix of our own crates. Other crates log only warnings, and these at debug only:
/// their failures are returned as errors, which our crates log once, with the object and the cause.
const CRATE_PREFIX: &str = "karpenter";

/// How to log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The least level.
    pub level: LogLevel,
    /// Where records go: stdout, stderr and files.
    pub output_paths: Vec<String>,
    /// Where failures of logging go.
    pub error_output_paths: Vec<String>,
    /// The revision that was built; none if it is unknown.
    pub commit: Option<String>,
}

impl LogConfig {
    /// Creates the configuration from the options.
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
    /// A logger is already installed.
    #[error("logs are set up twice")]
    AlreadyInstalled,
}

/// Logs from now on, for the whole process.
pub fn install(config: &LogConfig, clock: Arc<dyn Clock>) -> Result<(), TelemetryError> {
    let output = LogOutput::open(&config.output_paths, &config.error_output_paths)?;
    let subscriber = subscriber(config, clock, output);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|_| TelemetryError::AlreadyInstalled)
}

fn subscriber(
    config: &LogConfig,
    clock: Arc<dyn Clock>,
    output: LogOutput,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::registry().with(SpanFieldsLayer).with(LogLayer {
        level: config.level,
        commit: config.commit.clone(),
        clock,
        sink: Mutex::new(LogSink { sampler: LogSampler::default(), output }),
    })
}

struct LogLayer {
    level: LogLevel,
    commit: Option<String>,
    clock: Arc<dyn Clock>,
    sink: Mutex<LogSink>,
}

struct LogSink {
    sampler: LogSampler,
    output: LogOutput,
}

impl LogLayer {
    fn is_level_enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Spans carry the context of records inside them, at any level.
        if metadata.is_span() {
            return true;
        }
        let is_ours = metadata.target().starts_with(CRATE_PREFIX);
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

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.is_level_enabled(metadata)
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let now = self.clock.now();
        let mut fields = LogFields::default();
        event.record(&mut fields);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if !sink.sampler.admits(*event.metadata().level(), fields.message(), now) {
            return;
        }
        let mut line = LogLine::new(event.metadata(), now, self.commit.as_deref());
        if self.level == LogLevel::Debug {
            line.caller(event.metadata());
        }
        line.add_spans(event, &context);
        line.fields(fields);
        sink.output.write(&line);
    }
}
