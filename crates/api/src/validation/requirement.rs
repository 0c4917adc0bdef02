//! One requirement of a pool or an overlay (spec 10 §11.2).

use super::{Findings, ProviderRules};
use crate::grammar::{label_value_errors, parse_bound, qualified_name_errors};
use crate::requirement::{OPERATORS, OverlayRequirement, Requirement};

/// The parts of a requirement that are validated, whichever kind it is from.
#[derive(Clone, Copy, Debug)]
pub struct RequirementView<'a> {
    /// Label key as written.
    pub key: &'a str,
    /// Operator as written.
    pub operator: &'a str,
    /// Values; absent ones are none.
    pub values: &'a [String],
    /// Least number of values; overlays have none.
    pub min_values: Option<i64>,
}

impl<'a> From<&'a Requirement> for RequirementView<'a> {
    fn from(requirement: &'a Requirement) -> Self {
        Self {
            key: &requirement.key,
            operator: &requirement.operator,
            values: requirement.values.as_deref().unwrap_or_default(),
            min_values: requirement.min_values,
        }
    }
}

impl<'a> From<&'a OverlayRequirement> for RequirementView<'a> {
    fn from(requirement: &'a OverlayRequirement) -> Self {
        Self {
            key: &requirement.key,
            operator: &requirement.operator,
            values: requirement.values.as_deref().unwrap_or_default(),
            min_values: None,
        }
    }
}

/// Values that the provider does not know, beside others that it does.
/// They are left out and logged as an error (spec 10 §11.2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredValues {
    /// Label key, normalised.
    pub key: String,
    /// Values that count.
    pub valid: Vec<String>,
    /// Values that are left out.
    pub invalid: Vec<String>,
}

/// Checks one requirement. An old spelling of its key counts as the key that it stands for.
pub fn requirement(requirement: RequirementView<'_>, provider: &ProviderRules) -> Findings {
    let requirement = RequirementView { key: provider.normalize(requirement.key), ..requirement };
    let RequirementView { key, operator, values, .. } = requirement;
    let mut findings = Findings::default();
    if !OPERATORS.contains(&operator) {
        let supported = OPERATORS.join(" ");
        findings.add_error(format!(
            "key {key} has an unsupported operator {operator} not in [{supported}]"
        ));
    }
    findings.errors.extend(provider.restricted_label(key));
    check_well_known_values(requirement, provider, &mut findings);
    for detail in qualified_name_errors(key) {
        findings.add_error(format!("key {key} is not a qualified name, {detail}"));
    }
    for value in values {
        for detail in label_value_errors(value) {
            findings.add_error(format!("invalid value {value} for key {key}, {detail}"));
        }
    }
    check_values(requirement, &mut findings);
    findings
}

/// Checks the values of a label whose values are fixed.
/// Only `In` can miss all of them.
fn check_well_known_values(
    requirement: RequirementView<'_>,
    provider: &ProviderRules,
    findings: &mut Findings,
) {
    let RequirementView { key, operator, values, min_values } = requirement;
    let Some(known) = provider.well_known_values(key) else { return };
    if operator != "In" {
        return;
    }
    let (valid, invalid): (Vec<_>, Vec<_>) =
        values.iter().cloned().partition(|value| known.contains(&value.as_str()));
    let listed = values.join(" ");
    let known = known.join(" ");
    if valid.is_empty() {
        let got = invalid.join(" ");
        findings.add_error(format!(
            "no valid values found in [{listed}] for {key}, expected one of: [{known}], got: [{got}]"
        ));
    } else if let Some(least) = min_values.filter(|&least| is_below(valid.len(), least)) {
        let got = valid.len();
        findings.add_error(format!(
            "not enough valid values found in [{listed}] for {key}, expected at least {least} valid \
             values from: [{known}], got: {got}"
        ));
    } else if !invalid.is_empty() {
        findings.warnings.push(IgnoredValues { key: key.to_owned(), valid, invalid });
    }
}

/// Checks how many values an operator needs.
fn check_values(requirement: RequirementView<'_>, findings: &mut Findings) {
    let RequirementView { key, operator, values, min_values } = requirement;
    if operator == "In" && values.is_empty() {
        findings.add_error(missing_value_error(key, operator));
    }
    if operator == "In" && min_values.is_some_and(|least| is_below(values.len(), least)) {
        findings.add_error(format!(
            "key {key} with operator {operator} must have at least minimum number of values \
             defined in 'values' field"
        ));
    }
    let is_numeric = matches!(operator, "Gt" | "Lt" | "Gte" | "Lte");
    if is_numeric && !matches!(values, [value] if parse_bound(value).is_some()) {
        findings.add_error(format!(
            "key {key} with operator {operator} must have a single positive integer value"
        ));
    }
}

pub(super) fn missing_value_error(key: &str, operator: &str) -> String {
    format!("key {key} with operator {operator} must have a value defined")
}

fn is_below(count: usize, least: i64) -> bool {
    i64::try_from(count).is_ok_and(|count| count < least)
}
