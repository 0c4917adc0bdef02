//! The controller's options that change decisions, for commands that decide without a controller.
//! They flatten [`DecisionArgs`] and get a [`DecisionOptions`].
//!
//! What the options are, and how texts are read, is in [`karpenter_operator::options`]; here they
//! become clap's arguments, and problems become diagnostics.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use karpenter_core::id::PodId;
use karpenter_core::pod::SpreadConstraint;
use karpenter_core::scheduling::{self, MinValuesPolicy, PreferencePolicy};
use karpenter_operator::options::{
    ConsolidationSearch, FeatureGates, IgnoredVariable, Options, OptionsError, ValueProblem,
    definitions, flags, is_path_like,
};

pub(crate) use karpenter_operator::options::Gate;

use crate::diagnostic::Diagnostic;
use crate::environment;

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

    /// How far --consolidate looks: best, deep or upstream [env: CONSOLIDATION_SEARCH] [default: best]
    #[arg(long, value_name = "SEARCH")]
    pub(crate) consolidation_search: Option<String>,
}

/// The resolved options of a decision.
#[derive(Clone, Debug)]
pub(crate) struct DecisionOptions {
    pub(crate) preferences: PreferencePolicy,
    pub(crate) min_values: MinValuesPolicy,
    pub(crate) gates: FeatureGates,
    /// Default spread constraints of `--scheduler-config`.
    pub(crate) default_spread: Vec<SpreadConstraint>,
    pub(crate) ignore_dynamic_resources: bool,
    pub(crate) consolidation_search: ConsolidationSearch,
    /// About gates that do not exist, and variables that cannot be read.
    pub(crate) warnings: Vec<String>,
}

impl DecisionArgs {
    /// Resolves the flags, then the environment. A decision ignores the controller's other options,
    /// whatever the environment sets.
    pub(crate) fn resolve(
        &self,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<DecisionOptions, Box<Diagnostic>> {
        let flags = [
            ("preference-policy", &self.preference_policy),
            ("min-values-policy", &self.min_values_policy),
            ("feature-gates", &self.feature_gates),
            ("scheduler-config", &self.scheduler_config),
            ("ignore-dra-requests", &self.ignore_dra_requests),
            ("consolidation-search", &self.consolidation_search),
        ];
        let given: BTreeMap<_, _> =
            flags.iter().filter_map(|(flag, text)| Some((*flag, text.as_ref()?.clone()))).collect();
        let mut definitions = definitions();
        definitions.retain(|definition| flags.iter().any(|(flag, _)| *flag == definition.flag));
        let resolved = flags::resolve_flags(&definitions, given, environment);
        let resolved = resolved.map_err(|error| option_diagnostic(&error))?;
        let options =
            Options::from_resolved(&resolved).map_err(|error| option_diagnostic(&error))?;
        let unknown_gates = resolved.value("feature-gates").and_then(|given| {
            let (unknown, known) = (&options.unknown_feature_gates, FeatureGates::names());
            (!unknown.is_empty()).then(|| {
                let (unknown, known) = (unknown.join(", "), known.join(", "));
                format!("{}: no such gate: {unknown}; there are {known}", given.from)
            })
        });
        let unread = resolved.ignored_variables.iter().map(
            |IgnoredVariable { variable, text, allowed, default }| {
                format!("{variable} is ignored: {text:?} is not {allowed}; {default} counts")
            },
        );
        let warnings = unknown_gates.into_iter().chain(unread).collect();
        Ok(DecisionOptions {
            preferences: options.preference_policy,
            min_values: options.min_values_policy,
            gates: options.feature_gates,
            default_spread: options.default_spread,
            ignore_dynamic_resources: options.ignore_dra_requests,
            consolidation_search: options.consolidation_search,
            warnings,
        })
    }
}

/// Returns the controllers' options of a demo: `CONSOLIDATION_SEARCH`, else defaults. Settings of a
/// controller on a real cluster do not apply to a demo; the search is read so that users can
/// compare searches.
pub(crate) fn demo_options(
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Options, Box<Diagnostic>> {
    let mut definitions = definitions();
    definitions.retain(|definition| definition.flag == "consolidation-search");
    let resolved = flags::resolve_flags(&definitions, BTreeMap::new(), environment);
    let resolved = resolved.map_err(|error| option_diagnostic(&error))?;
    let given = Options::from_resolved(&resolved).map_err(|error| option_diagnostic(&error))?;
    // An option that was not resolved has no default there.
    Ok(Options { consolidation_search: given.consolidation_search, ..Options::default() })
}

impl DecisionOptions {
    /// Returns the options of a solve for pending pods; `explain` keeps the whole rejection tree.
    pub(crate) fn solve_options(&self, explain: BTreeSet<PodId>) -> scheduling::Options {
        scheduling::Options {
            preferences: self.preferences,
            min_values: self.min_values,
            reserved_capacity: self.gates.is_enabled(Gate::ReservedCapacity),
            ignore_dynamic_resources: self.ignore_dynamic_resources,
            default_spread: self.default_spread.clone(),
            explain,
            ..scheduling::Options::default()
        }
    }
}

/// Returns the diagnostic of an invalid option, with its fix.
fn option_diagnostic(error: &OptionsError) -> Box<Diagnostic> {
    let unknown = |from: &str, text: &str, known: &str| {
        Diagnostic::new(format!("{from} must be {known}"))
            .found(format!("{text:?}"))
            .fix(format!("write {known}"))
    };
    let diagnostic = match error {
        OptionsError::Bool { name, text } => unknown(&format!("--{name}"), text, "true or false"),
        OptionsError::Invalid { given, problem: ValueProblem::NotOneOf(known), .. } => {
            unknown(&given.from.to_string(), &given.text, known)
        }
        OptionsError::Invalid { env, given, problem: ValueProblem::Other(problem) } => {
            let wrong = Diagnostic::new(format!("{}: {problem}", given.from));
            match *env {
                "SCHEDULER_CONFIG" if is_path_like(&given.text) => {
                    let path = given.text.trim();
                    wrong.found(format!("{path:?}, which looks like a path")).fix(format!(
                        "it takes the text itself: --scheduler-config \"$(cat {path})\""
                    ))
                }
                "SCHEDULER_CONFIG" => wrong.fix(
                    "write it as kube-scheduler has it: \
                     {podTopologySpread: {defaultConstraints: [...]}}",
                ),
                _ => wrong
                    .found(format!("{:?}", given.text))
                    .fix("write pairs such as NodeOverlay=true,CapacityBuffer=true"),
            }
        }
        OptionsError::NotUtf8 { variable } => environment::not_utf8_diagnostic(variable),
        other => Diagnostic::new(other.to_string()),
    };
    diagnostic.into()
}

#[cfg(test)]
mod tests;
