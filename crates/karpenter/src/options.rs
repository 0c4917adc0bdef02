//! The controller's options that change decisions, with upstream's names, environment variables,
//! defaults and reading (spec 40 §7, spec 45 §2). Commands that decide flatten [`DecisionArgs`] and
//! get a [`Decision`].
//!
//! A flag wins over the environment, the environment over the default. A boolean of the
//! environment that cannot be read counts as not set, as upstream has it; every other text that
//! cannot be read is an error.

mod gates;
mod scheduler_config;

use std::collections::BTreeSet;

use karpenter_core::id::PodId;
use karpenter_core::pod::SpreadConstraint;
use karpenter_core::scheduling::{MinValuesPolicy, Options, PreferencePolicy};

pub(crate) use gates::{FeatureGates, Gate};

use crate::diagnostic::Diagnostic;

/// Flags as they were given.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Decision options, as the controller has them")]
pub(crate) struct DecisionArgs {
    /// Treatment of preferences: Respect or Ignore [env: PREFERENCE_POLICY] [default: Respect]
    #[arg(long, value_name = "POLICY")]
    preference_policy: Option<String>,

    /// Treatment of minValues: Strict or BestEffort [env: MIN_VALUES_POLICY] [default: Strict]
    #[arg(long, value_name = "POLICY")]
    min_values_policy: Option<String>,

    /// Feature gates, e.g. NodeOverlay=true,CapacityBuffer=true [env: FEATURE_GATES]
    #[arg(long, value_name = "GATES")]
    feature_gates: Option<String>,

    /// Default spread constraints of kube-scheduler, as YAML or JSON text, not a path [env: SCHEDULER_CONFIG]
    #[arg(long, value_name = "YAML")]
    scheduler_config: Option<String>,

    /// Leave pods with ResourceClaims alone [env: IGNORE_DRA_REQUESTS] [default: true]
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    ignore_dra_requests: Option<String>,
}

/// What the flags and the environment say.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) preferences: PreferencePolicy,
    pub(crate) min_values: MinValuesPolicy,
    pub(crate) gates: FeatureGates,
    /// Default spread constraints of `--scheduler-config`.
    pub(crate) default_spread: Vec<SpreadConstraint>,
    pub(crate) ignore_dynamic_resources: bool,
    /// A warning about gates that do not exist.
    pub(crate) unknown_gates: Option<String>,
}

impl DecisionArgs {
    /// What the flags say, and where they say nothing, the environment.
    pub(crate) fn resolve(
        &self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Decision, Box<Diagnostic>> {
        let given = |flag: &Option<String>, name: &'static str, variable: &'static str| {
            let of_flag = flag.clone().map(|text| Given { text, from: name });
            of_flag.or_else(|| Some(Given { text: environment(variable)?, from: variable }))
        };
        let preferences =
            given(&self.preference_policy, "--preference-policy", "PREFERENCE_POLICY");
        let min_values = given(&self.min_values_policy, "--min-values-policy", "MIN_VALUES_POLICY");
        let gates = given(&self.feature_gates, "--feature-gates", "FEATURE_GATES");
        let config = given(&self.scheduler_config, "--scheduler-config", "SCHEDULER_CONFIG");
        Ok(Decision {
            preferences: match preferences {
                None => PreferencePolicy::Respect,
                Some(given) => match given.text.as_str() {
                    "Respect" => PreferencePolicy::Respect,
                    "Ignore" => PreferencePolicy::Ignore,
                    _ => return Err(given.unknown("Respect or Ignore")),
                },
            },
            min_values: match min_values {
                None => MinValuesPolicy::Strict,
                Some(given) => match given.text.as_str() {
                    "Strict" => MinValuesPolicy::Strict,
                    "BestEffort" => MinValuesPolicy::BestEffort,
                    _ => return Err(given.unknown("Strict or BestEffort")),
                },
            },
            unknown_gates: gates.as_ref().and_then(unknown_gates),
            gates: gates.map_or_else(|| Ok(FeatureGates::default()), feature_gates)?,
            default_spread: config.map_or_else(|| Ok(Vec::new()), default_spread)?,
            ignore_dynamic_resources: match self.ignore_dra_requests.as_deref() {
                Some("true") => true,
                Some("false") => false,
                Some(other) => {
                    let given = Given { text: other.to_owned(), from: "--ignore-dra-requests" };
                    return Err(given.unknown("true or false"));
                }
                None => {
                    environment("IGNORE_DRA_REQUESTS").and_then(|v| go_bool(&v)).unwrap_or(true)
                }
            },
        })
    }
}

impl Decision {
    /// The switches of a solve for pending pods; the whole tree of refusals is kept for `explain`.
    pub(crate) fn solve_options(&self, explain: BTreeSet<PodId>) -> Options {
        Options {
            preferences: self.preferences,
            min_values: self.min_values,
            reserved_capacity: self.gates.is_on(Gate::ReservedCapacity),
            ignore_dynamic_resources: self.ignore_dynamic_resources,
            default_spread: self.default_spread.clone(),
            explain,
            ..Options::default()
        }
    }
}

/// A text, and the flag or variable that it came from.
#[derive(Clone, Debug)]
struct Given {
    text: String,
    from: &'static str,
}

impl Given {
    fn unknown(&self, known: &str) -> Box<Diagnostic> {
        Diagnostic::new(format!("{} must be {known}", self.from))
            .found(format!("{:?}", self.text))
            .fix(format!("write {known}"))
            .into()
    }
}

fn feature_gates(given: Given) -> Result<FeatureGates, Box<Diagnostic>> {
    let Given { text, from } = given;
    FeatureGates::parse(&text).map_err(|error| {
        Diagnostic::new(format!("{from}: {error}"))
            .found(format!("{text:?}"))
            .fix("write pairs such as NodeOverlay=true,CapacityBuffer=true")
            .into()
    })
}

/// A warning about gates that nobody knows. They are no error, as upstream has it.
fn unknown_gates(given: &Given) -> Option<String> {
    let unknown = FeatureGates::unknown(&given.text);
    (!unknown.is_empty()).then(|| {
        let (from, unknown, known) = (given.from, unknown.join(", "), FeatureGates::names());
        format!("{from}: no such gate: {unknown}; there are {}", known.join(", "))
    })
}

fn default_spread(given: Given) -> Result<Vec<SpreadConstraint>, Box<Diagnostic>> {
    let Given { text, from } = given;
    scheduler_config::parse(&text).map_err(|error| {
        let wrong = Diagnostic::new(format!("{from}: {error}"));
        let fixed = if scheduler_config::looks_like_a_path(&text) {
            let path = text.trim();
            wrong
                .found(format!("{path:?}, which looks like a path"))
                .fix(format!("it takes the text itself: --scheduler-config \"$(cat {path})\""))
        } else {
            wrong.fix(
                "write it as kube-scheduler has it: \
                 {podTopologySpread: {defaultConstraints: [...]}}",
            )
        };
        fixed.into()
    })
}

/// The texts that Go's `strconv.ParseBool` takes.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
