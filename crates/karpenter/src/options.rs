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

    /// Default spread constraints of kube-scheduler, as YAML or JSON [env: SCHEDULER_CONFIG]
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
}

impl DecisionArgs {
    /// What the flags say, and where they say nothing, the environment.
    pub(crate) fn resolve(
        &self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Decision, Box<Diagnostic>> {
        let text = |flag: &Option<String>, name: &str, default: &str| {
            flag.clone().or_else(|| environment(name)).unwrap_or_else(|| default.to_owned())
        };
        let preferences = text(&self.preference_policy, "PREFERENCE_POLICY", "Respect");
        let min_values = text(&self.min_values_policy, "MIN_VALUES_POLICY", "Strict");
        let gates = text(&self.feature_gates, "FEATURE_GATES", "");
        let config = text(&self.scheduler_config, "SCHEDULER_CONFIG", "");
        Ok(Decision {
            preferences: match preferences.as_str() {
                "Respect" => PreferencePolicy::Respect,
                "Ignore" => PreferencePolicy::Ignore,
                other => return Err(unknown("--preference-policy", other, "Respect or Ignore")),
            },
            min_values: match min_values.as_str() {
                "Strict" => MinValuesPolicy::Strict,
                "BestEffort" => MinValuesPolicy::BestEffort,
                other => {
                    return Err(unknown("--min-values-policy", other, "Strict or BestEffort"));
                }
            },
            gates: FeatureGates::parse(&gates).map_err(|error| {
                Diagnostic::new(format!("--feature-gates: {error}"))
                    .found(format!("{gates:?}"))
                    .fix("write pairs such as NodeOverlay=true,CapacityBuffer=true")
            })?,
            default_spread: scheduler_config::parse(&config).map_err(|error| {
                Diagnostic::new(format!("--scheduler-config: {error}")).fix(
                    "write it as kube-scheduler has it: \
                     {podTopologySpread: {defaultConstraints: [...]}}",
                )
            })?,
            ignore_dynamic_resources: match self.ignore_dra_requests.as_deref() {
                Some("true") => true,
                Some("false") => false,
                Some(other) => {
                    return Err(unknown("--ignore-dra-requests", other, "true or false"));
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

fn unknown(flag: &str, found: &str, known: &str) -> Box<Diagnostic> {
    Diagnostic::new(format!("{flag} must be {known}")).found(format!("{found:?}")).into()
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
