//! `--scheduler-config`: the parts of kube-scheduler's configuration that a solve has to mirror
//! (spec 20 §3.18, spec 40 §7.4).

use karpenter_api::grammar::qualified_name_errors;
use karpenter_core::pod::SpreadConstraint;
use karpenter_core::selector::Selector;
use serde::Deserialize;
use serde_json::Value;

use crate::yaml_limits;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SchedulerConfig {
    #[serde(default)]
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    #[serde(default)]
    default_constraints: Option<Vec<DefaultConstraint>>,
}

/// A spread constraint as Kubernetes writes it. Absent fields are empty, as in Go.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DefaultConstraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<Value>,
    match_label_keys: Option<Vec<String>>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
}

/// The default spread constraints of a configuration; none for an empty text.
pub(super) fn parse(text: &str) -> Result<Vec<SpreadConstraint>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let config: Option<SchedulerConfig> =
        serde_saphyr::from_str_with_options(text, yaml_limits::parser_options(text))
            .map_err(|error| format!("decoding scheduler config, {}", first_line(&error)))?;
    let constraints = config
        .and_then(|config| config.pod_topology_spread)
        .and_then(|spread| spread.default_constraints)
        .unwrap_or_default();
    for (index, constraint) in constraints.iter().enumerate() {
        let at = |problem: &str| {
            format!(
                "validating scheduler config, podTopologySpread.defaultConstraints[{index}]{problem}"
            )
        };
        constraint.check().map_err(|problem| at(&problem))?;
        let duplicate =
            constraints[..index].iter().position(|other| constraint.is_duplicate_of(other));
        if let Some(duplicate) = duplicate {
            let DefaultConstraint { topology_key, when_unsatisfiable, .. } = constraint;
            let pair = format!("{{{topology_key}, {when_unsatisfiable}}}");
            return Err(at(&format!(" is a duplicate of [{duplicate}], {pair}")));
        }
    }
    Ok(constraints.into_iter().map(DefaultConstraint::into_spread).collect())
}

/// Whether the text looks like a file path instead of a configuration.
pub fn is_path_like(text: &str) -> bool {
    let text = text.trim();
    let is_word = !text.is_empty() && !text.contains(['\n', ':', '{', '[', '"']);
    let extension = std::path::Path::new(text).extension().and_then(|extension| extension.to_str());
    is_word && (text.contains('/') || matches!(extension, Some("yaml" | "yml" | "json" | "conf")))
}

fn first_line(error: &serde_saphyr::Error) -> String {
    error.without_snippet().to_string().lines().next().unwrap_or_default().to_owned()
}

const DO_NOT_SCHEDULE: &str = "DoNotSchedule";
const SCHEDULE_ANYWAY: &str = "ScheduleAnyway";

impl DefaultConstraint {
    /// Returns an error text that follows the place of the constraint.
    fn check(&self) -> Result<(), String> {
        let Self { topology_key, when_unsatisfiable, .. } = self;
        if self.max_skew <= 0 {
            return Err(".maxSkew must be greater than 0".to_owned());
        }
        if topology_key.is_empty() {
            return Err(".topologyKey must be set".to_owned());
        }
        let errors = qualified_name_errors(topology_key);
        if !errors.is_empty() {
            let errors = errors.join(", ");
            return Err(format!(
                ".topologyKey {topology_key:?} is not a valid label name, {errors}"
            ));
        }
        if ![DO_NOT_SCHEDULE, SCHEDULE_ANYWAY].contains(&when_unsatisfiable.as_str()) {
            return Err(format!(
                ".whenUnsatisfiable {when_unsatisfiable:?} must be one of {DO_NOT_SCHEDULE:?} or {SCHEDULE_ANYWAY:?}"
            ));
        }
        if self.label_selector.as_ref().is_some_and(|selector| !selector.is_null()) {
            return Err(
                ".labelSelector must not be set, as selectors are deduced for each pod".into()
            );
        }
        if self.match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
            return Err(
                ".matchLabelKeys must not be set, as it has no effect on default constraints"
                    .into(),
            );
        }
        Ok(())
    }

    fn is_duplicate_of(&self, other: &Self) -> bool {
        self.topology_key == other.topology_key
            && self.when_unsatisfiable == other.when_unsatisfiable
    }

    fn into_spread(self) -> SpreadConstraint {
        SpreadConstraint {
            topology_key: self.topology_key,
            max_skew: self.max_skew,
            is_required: self.when_unsatisfiable == DO_NOT_SCHEDULE,
            selector: Selector::Nothing,
            match_label_keys: Vec::new(),
            min_domains: self.min_domains,
            honors_node_affinity: self.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_node_taints: self.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}
