//! Runtime validation of a NodePool (spec 10 §11.1).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;

use super::{Findings, ProviderRules, RequirementView, requirement};
use crate::grammar::{
    Duration, DurationError, NillableDuration, label_value_errors, qualified_name_errors,
};
use crate::nodepool::{NodeClaimTemplateSpec, NodePoolSpec};
use crate::{labels, taints};

/// Checks a pool: labels, taints, requirements, and last the values that only decoding can judge.
pub fn nodepool(spec: &NodePoolSpec, provider: &ProviderRules) -> Findings {
    let mut findings = Findings::default();
    if let Some(labels) = spec.template.metadata.as_ref().and_then(|meta| meta.labels.as_ref()) {
        check_labels(labels, provider, &mut findings);
    }
    check_taints(&spec.template.spec, &mut findings);
    check_requirements(&spec.template.spec, provider, &mut findings);
    check_durations_and_quantities(spec, &mut findings);
    findings
}

fn check_labels(
    template: &BTreeMap<String, String>,
    provider: &ProviderRules,
    findings: &mut Findings,
) {
    for (key, value) in template {
        if key == labels::NODEPOOL {
            findings.add_error(format!("invalid key name {key:?} in labels, restricted"));
        }
        for detail in qualified_name_errors(key) {
            findings.add_error(format!("invalid key name {key:?} in labels, {detail:?}"));
        }
        for detail in label_value_errors(value) {
            findings.add_error(format!("invalid value: {value} for label[{key}], {detail}"));
        }
        if let Some(refusal) = provider.restricted_label(key) {
            findings.add_error(format!("invalid key name {key:?} in labels, {refusal}"));
        }
    }
}

fn check_taints(spec: &NodeClaimTemplateSpec, findings: &mut Findings) {
    // One pair may occur once in both lists together: a startup taint that repeats a lasting one
    // would take it away.
    let mut seen = BTreeSet::new();
    for (field, taints) in [("taints", &spec.taints), ("startupTaints", &spec.startup_taints)] {
        for taint in taints.iter().flatten() {
            check_taint(taint, field, findings);
            if !seen.insert((&taint.key, &taint.effect)) {
                let (key, effect) = (&taint.key, &taint.effect);
                findings.add_error(format!("duplicate taint Key/Effect pair {key}={effect}"));
            }
        }
    }
}

fn check_taint(taint: &Taint, field: &str, findings: &mut Findings) {
    let value = taint.value.as_deref().unwrap_or_default();
    let mut details = qualified_name_errors(&taint.key);
    if !value.is_empty() {
        details.extend(qualified_name_errors(value));
    }
    for detail in details {
        findings.add_error(format!("invalid value: {detail} in {field}"));
    }
    let effect = taint.effect.as_str();
    if !effect.is_empty() && !taints::EFFECTS.contains(&effect) {
        findings.add_error(format!("invalid value: {effect:?} in {field}"));
    }
}

fn check_requirements(
    spec: &NodeClaimTemplateSpec,
    provider: &ProviderRules,
    findings: &mut Findings,
) {
    for item in &spec.requirements {
        let found = requirement(RequirementView::from(item), provider);
        if let Some(errors) = found.message() {
            findings.add_error(format!("invalid value: {errors} in requirements, restricted"));
        }
        findings.warnings.extend(found.warnings);
    }
    for item in &spec.requirements {
        if item.key == labels::NODEPOOL {
            findings.add_error(format!("invalid key: {:?} in requirements, restricted", item.key));
        }
    }
}

/// Reports durations and quantities that are out of range, such as `9999999h`.
/// They match their pattern. Upstream cannot read such an object at all; here it is one NodePool
/// that is not valid (spec 10 §15.1).
fn check_durations_and_quantities(spec: &NodePoolSpec, findings: &mut Findings) {
    let mut check = |field: &str, error: Option<DurationError>| {
        if let Some(error) = error {
            findings.add_error(format!("invalid value: {error} in {field}"));
        }
    };
    let plain = |duration: &Option<Duration>| duration.as_ref()?.value().err();
    let nillable = |duration: &Option<NillableDuration>| duration.as_ref()?.value().err();
    let template = &spec.template.spec;
    check("terminationGracePeriod", plain(&template.termination_grace_period));
    check("expireAfter", nillable(&template.expire_after));
    if let Some(disruption) = &spec.disruption {
        check("consolidateAfter", nillable(&disruption.consolidate_after));
        for budget in disruption.budgets.iter().flatten() {
            check("budgets", plain(&budget.duration));
        }
    }
    for (resource, limit) in spec.limits.iter().flatten() {
        if let Err(error) = limit.value() {
            findings.add_error(format!("invalid value: {error} in limits[{resource}]"));
        }
    }
}

#[cfg(test)]
mod tests;
