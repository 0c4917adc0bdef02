//! Parses a requirement of the command line, such as `kubernetes.io/arch In [arm64]`.

use std::collections::BTreeSet;

use karpenter_api::validation::{self, ProviderRules, RequirementView};
use karpenter_core::catalog::Catalog;
use karpenter_core::requirement::{Operator, Requirement, RequirementItem};

use crate::diagnostic::Diagnostic;

const FORMAT: &str = "write KEY OPERATOR [VALUES], e.g. \
                      'karpenter.k8s.aws/instance-family In [c7g,m7g]' or \
                      'karpenter.k8s.aws/instance-cpu Gt 4'";

/// Returns the requirement of a text, valid as one of a NodePool.
pub(crate) fn parse(
    text: &str,
    rules: &ProviderRules,
    catalog: &Catalog,
) -> Result<Requirement, Box<Diagnostic>> {
    let invalid = |problem: &str, fix: &str| -> Box<Diagnostic> {
        Diagnostic::new(format!("--requirement {text:?}: {problem}")).fix(fix).into()
    };
    let (key, operator, values) =
        split(text).ok_or_else(|| invalid("key or operator is missing", FORMAT))?;
    let is_named = |known: &&Operator| known.name().eq_ignore_ascii_case(operator);
    let Some(known) = Operator::ALL.iter().find(is_named) else {
        let names = Operator::ALL.map(Operator::name).join(", ");
        let problem = format!("{operator} is not an operator");
        return Err(invalid(&problem, &format!("use one of {names}")));
    };
    let key = catalog.aliases.normalize_key(key);
    if !catalog.well_known.contains(key) {
        let fix = format!("use one of {}", similar_keys(key, &catalog.well_known).join(", "));
        return Err(invalid(&format!("instance types have no label {key}"), &fix));
    }
    let view = RequirementView { key, operator: known.name(), values: &values, min_values: None };
    if let Some(problem) = validation::requirement(view, rules).message() {
        return Err(invalid(&problem, FORMAT));
    }
    let item = RequirementItem { key: key.to_owned(), operator: *known, values, min_values: None };
    Requirement::from_item(&item, &catalog.aliases)
        .map_err(|error| invalid(&error.to_string(), FORMAT))
}

/// Splits a text into key, operator and values.
fn split(text: &str) -> Option<(&str, &str, Vec<String>)> {
    let (key, rest) = text.trim().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| c.is_whitespace() || c == '[').unwrap_or(rest.len());
    let (operator, values) = rest.split_at(end);
    let is_separator = |c: char| c.is_whitespace() || ",[]\"'".contains(c);
    let values = values.split(is_separator).filter(|value| !value.is_empty());
    (!operator.is_empty()).then(|| (key, operator, values.map(str::to_owned).collect()))
}

/// Returns the keys that contain the last part of a key, else all.
fn similar_keys<'a>(key: &str, known: &'a BTreeSet<String>) -> Vec<&'a str> {
    let part = key.rsplit('/').next().unwrap_or(key);
    let is_similar = |known: &&String| !part.is_empty() && known.contains(part);
    let similar: Vec<_> = known.iter().filter(is_similar).map(String::as_str).collect();
    if similar.is_empty() { known.iter().map(String::as_str).collect() } else { similar }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        let rules = ProviderRules::aws();
        let well_known = rules.well_known_labels().map(str::to_owned).collect();
        let catalog = Catalog { well_known: Arc::new(well_known), ..Catalog::default() };
        parse(text, &rules, &catalog)
            .map(|requirement| requirement.to_string())
            .map_err(|diagnostic| diagnostic.problem())
    }

    #[test]
    fn requirements_are_written_in_several_ways() {
        for text in [
            "kubernetes.io/arch In [arm64,amd64]",
            "kubernetes.io/arch In [arm64, amd64]",
            "  kubernetes.io/arch   in arm64,amd64 ",
            "kubernetes.io/arch In[\"arm64\" 'amd64']",
        ] {
            let want = "kubernetes.io/arch In [amd64 arm64]".to_owned();
            assert_eq!(parsed(text), Ok(want), "{text}");
        }
        let cpu = "karpenter.k8s.aws/instance-cpu";
        assert_eq!(parsed(&format!("{cpu} Gt 4")), Ok(format!("{cpu} Exists >=5")));
        let gpu = "karpenter.k8s.aws/instance-gpu-name DoesNotExist";
        assert_eq!(parsed(gpu), Ok(gpu.to_owned()));
    }

    #[test]
    fn every_wrong_requirement_is_an_error() {
        for text in [
            "",
            "kubernetes.io/arch",
            "kubernetes.io/arch [arm64]",
            "kubernetes.io/arch Near [arm64]",
            "kubernetes.io/arch In []",
            "karpenter.k8s.aws/instance-cpu Gt many",
            "karpenter.k8s.aws/instance-cpu Gt [1, 2]",
            "instance-family In [c7g]",
            "kubernetes.io/arch In [-]",
        ] {
            let problem = parsed(text).expect_err(text);
            assert!(problem.starts_with("--requirement "), "{problem}");
        }
    }
}
