//! Options of the controller: one table of flag, variable, default and help (spec 40 §7, spec 45
//! §2).
//!
//! `table` lists them, [`flags`] parses command lines and the environment, and [`Options`] holds
//! the values as plain data. Providers read their own options from the same [`ResolvedOptions`].
//! The environment is an argument: nothing here reads the process environment.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::Duration;

use karpenter_core::pod::SpreadConstraint;
use karpenter_core::scheduling::{MinValuesPolicy, PreferencePolicy};

pub mod flags;
mod gates;
mod scheduler_config;
mod table;
#[cfg(test)]
mod tests;

pub use flags::{
    IgnoredVariable, OptionDefinition, OptionsError, ResolvedOptions, ValueKind, ValueProblem,
    ValueSource,
};
pub use gates::{FeatureGates, GATES, Gate, GateEntry};
pub use scheduler_config::is_path_like;
pub use table::{definitions, definitions_with};

/// The value of `--cpu-requests` if the given one is not positive.
const DEFAULT_CPU_MILLIS: i64 = 1000;

/// The options of core.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Options {
    /// Port of /metrics; 0 takes one that is free.
    pub metrics_port: u16,
    /// Port of the probes; 0 takes one that is free.
    pub health_probe_port: u16,
    /// Requests per second to the API server. Below zero there is no limit.
    pub kube_client_qps: i64,
    /// Requests at once to the API server.
    pub kube_client_burst: i64,
    /// Whether /debug/pprof is there.
    pub enable_profiling: bool,
    /// Read as upstream reads it; nothing follows from it.
    pub disable_controller_warmup: bool,
    /// Whether there is no lease.
    pub disable_leader_election: bool,
    /// Whether gauges of objects, and metrics and events of conditions, are left out.
    pub disable_cluster_state_observability: bool,
    /// Name of the Lease.
    pub leader_election_name: String,
    /// Namespace of the Lease; empty is that of the pod.
    pub leader_election_namespace: String,
    /// Memory of the container in bytes; not above zero is unknown.
    pub memory_limit: i64,
    /// CPU of the container in millicores; above zero.
    pub cpu_requests: i64,
    /// The least level that is logged.
    pub log_level: LogLevel,
    /// Where logs go.
    pub log_output_paths: Vec<String>,
    /// Where logging errors are written.
    pub log_error_output_paths: Vec<String>,
    /// The longest that pods are gathered.
    pub batch_max_duration: Duration,
    /// How long no pod has to come.
    pub batch_idle_duration: Duration,
    /// Treatment of preferences.
    pub preference_policy: PreferencePolicy,
    /// Treatment of minValues.
    pub min_values_policy: MinValuesPolicy,
    /// Whether pods with ResourceClaims are left alone.
    pub ignore_dra_requests: bool,
    /// Whether repair is that of before v1.15.
    pub legacy_node_repair: bool,
    /// Which gates are on.
    pub feature_gates: FeatureGates,
    /// Names in `--feature-gates` that are no gates; worth a warning.
    pub unknown_feature_gates: Vec<String>,
    /// Default spread constraints of kube-scheduler.
    pub default_spread: Vec<SpreadConstraint>,
    /// How widely consolidation of several nodes searches.
    pub consolidation_search: ConsolidationSearch,
}

/// Levels of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Decisions that change the cluster.
    Info,
    /// Problems that a user has to fix.
    Error,
}

/// How widely consolidation of several nodes searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsolidationSearch {
    /// For the best commands that there is time for.
    Best,
    /// As far, and also for fewer nodes in place of several, and for zones that are cheap.
    Deep,
    /// The commands that upstream searches, and no others.
    Upstream,
}

/// The result of parsing a command line.
#[derive(Clone, Debug)]
pub enum ParsedCommandLine {
    /// To run. Arguments after the flags are in [`ResolvedOptions::positional`].
    Run(Box<Options>, ResolvedOptions),
    /// To print [`help`].
    Help,
}

impl Options {
    /// Parses arguments, without the program's name, with the environment for flags that are not
    /// given.
    pub fn parse(
        arguments: &[String],
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<ParsedCommandLine, OptionsError> {
        Self::parse_with(&definitions(), arguments, environment)
    }

    /// The same with a provider's options beside core's.
    pub fn parse_with(
        definitions: &[OptionDefinition],
        arguments: &[String],
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<ParsedCommandLine, OptionsError> {
        let resolved = flags::resolve(definitions, arguments, environment)?;
        if resolved.is_help_requested {
            return Ok(ParsedCommandLine::Help);
        }
        Ok(ParsedCommandLine::Run(Box::new(Self::from_resolved(&resolved)?), resolved))
    }

    /// Core's part of what flags and variables came to.
    pub fn from_resolved(resolved: &ResolvedOptions) -> Result<Self, OptionsError> {
        let invalid = |flag: &str, problem: String| match resolved.value(flag) {
            Some(given) => given.invalid(problem),
            None => OptionsError::Unknown { name: flag.to_owned(), nearest: None },
        };
        let port = |flag| u16::try_from(resolved.int(flag)).unwrap_or_default();
        let gates = resolved.text("feature-gates");
        let spread = scheduler_config::parse(resolved.text("scheduler-config"));
        let cpu_requests = match resolved.int("cpu-requests") {
            millis if millis > 0 => millis,
            _ => DEFAULT_CPU_MILLIS,
        };
        Ok(Self {
            metrics_port: port("metrics-port"),
            health_probe_port: port("health-probe-port"),
            kube_client_qps: resolved.int("kube-client-qps"),
            kube_client_burst: resolved.int("kube-client-burst"),
            enable_profiling: resolved.bool("enable-profiling"),
            disable_controller_warmup: resolved.bool("disable-controller-warmup"),
            disable_leader_election: resolved.bool("disable-leader-election"),
            disable_cluster_state_observability: resolved
                .bool("disable-cluster-state-observability"),
            leader_election_name: resolved.text("leader-election-name").to_owned(),
            leader_election_namespace: resolved.text("leader-election-namespace").to_owned(),
            memory_limit: resolved.int("memory-limit"),
            cpu_requests,
            log_level: match resolved.text("log-level") {
                "debug" => LogLevel::Debug,
                "error" => LogLevel::Error,
                _ => LogLevel::Info,
            },
            log_output_paths: resolved.list("log-output-paths"),
            log_error_output_paths: resolved.list("log-error-output-paths"),
            batch_max_duration: resolved.duration("batch-max-duration"),
            batch_idle_duration: resolved.duration("batch-idle-duration"),
            preference_policy: match resolved.text("preference-policy") {
                "Ignore" => PreferencePolicy::Ignore,
                _ => PreferencePolicy::Respect,
            },
            min_values_policy: match resolved.text("min-values-policy") {
                "BestEffort" => MinValuesPolicy::BestEffort,
                _ => MinValuesPolicy::Strict,
            },
            ignore_dra_requests: resolved.bool("ignore-dra-requests"),
            legacy_node_repair: resolved.bool("legacy-node-repair"),
            feature_gates: FeatureGates::parse(gates)
                .map_err(|problem| invalid("feature-gates", problem))?,
            unknown_feature_gates: FeatureGates::unknown_names(gates)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            default_spread: spread.map_err(|problem| invalid("scheduler-config", problem))?,
            consolidation_search: match resolved.text("consolidation-search") {
                "deep" => ConsolidationSearch::Deep,
                "upstream" => ConsolidationSearch::Upstream,
                _ => ConsolidationSearch::Best,
            },
        })
    }

    /// Whether a feature gate is enabled.
    pub fn is_enabled(&self, gate: Gate) -> bool {
        self.feature_gates.is_enabled(gate)
    }
}

impl Default for Options {
    /// What counts when nothing is set.
    fn default() -> Self {
        let resolved = flags::resolve(&definitions(), &[], |_| None);
        let options = resolved.and_then(|resolved| Self::from_resolved(&resolved));
        options.expect("defaults are valid, which a test says too")
    }
}

/// The help of a command that takes these options.
pub fn help(definitions: &[OptionDefinition]) -> String {
    let mut text = String::new();
    for OptionDefinition { flag, env, default, kind, help } in definitions {
        let value = match kind {
            ValueKind::Bool => "[=true|false]".to_owned(),
            ValueKind::Int { .. } => " <number>".to_owned(),
            ValueKind::Duration => " <duration>".to_owned(),
            ValueKind::OneOf(words) => {
                let words: Vec<_> = words.iter().copied().filter(|word| !word.is_empty()).collect();
                format!(" <{}>", words.join("|"))
            }
            ValueKind::Text => " <text>".to_owned(),
        };
        let _ =
            write!(text, "  --{flag}{value}\n      {help} [env: {env}] [default: {default:?}]\n");
    }
    text.push_str("\nFeature gates:\n");
    for GateEntry { name, default, stage, help, .. } in &GATES {
        let _ = write!(text, "  {name} ({stage}, default {default})\n      {help}\n");
    }
    text
}

/// Returns the reference page of these options, as Markdown.
pub fn reference(definitions: &[OptionDefinition]) -> String {
    let mut text = "# Options of the controller\n\n\
         <!-- Written by `cargo xtask codegen` from crates/operator/src/options. -->\n\n\
         A flag wins over the environment variable, the variable over the default. Flags are read \
         as Go does: `-name` is `--name`, values follow `=` or a space, and a boolean takes its \
         value after `=` only.\n\n\
         | Flag | Variable | Default | Allowed | Meaning |\n\
         |---|---|---|---|---|\n"
        .to_owned();
    for OptionDefinition { flag, env, default, kind, help } in definitions {
        // Gates have a table of their own.
        let default = match (*flag, default.is_empty()) {
            ("feature-gates", _) => "see below".to_owned(),
            (_, true) => String::new(),
            (_, false) => format!("`{default}`"),
        };
        let allowed = kind.allowed();
        let _ = writeln!(text, "| `--{flag}` | `{env}` | {default} | {allowed} | {help} |");
    }
    text.push_str(
        "\n## Feature gates\n\n\
         | Gate | Stage | Default | Meaning |\n\
         |---|---|---|---|\n",
    );
    for GateEntry { name, default, stage, help, .. } in &GATES {
        let _ = writeln!(text, "| `{name}` | {stage} | {default} | {help} |");
    }
    text
}
