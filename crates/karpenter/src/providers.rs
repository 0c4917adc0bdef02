//! The cloud providers of this build; the only place that selects one by name.

use karpenter_kwok::KwokProvider;
use karpenter_operator::options::{OptionDefinition, ValueKind};
use karpenter_operator::provider::Provider;

/// The flag that names the provider, which upstream does not have.
const FLAG: &str = "provider";

/// Names that `--provider` takes.
const NAMES: &[&str] = &["aws", "kwok"];

/// Returns the providers of this build.
pub(crate) fn all() -> Vec<Box<dyn Provider>> {
    vec![Box::new(KwokProvider)]
}

/// Returns the provider of that name; the error says what to do without it.
pub(crate) fn find(name: &str) -> Result<Box<dyn Provider>, String> {
    let found = all().into_iter().find(|provider| provider.facts().name == name);
    found.ok_or_else(|| {
        format!(
            "the provider {name} is not part of this version; --provider kwok runs on any cluster"
        )
    })
}

/// Returns the definition of the option `--provider`.
pub(crate) fn option() -> OptionDefinition {
    OptionDefinition {
        flag: FLAG,
        env: "KARPENTER_PROVIDER",
        default: "aws".to_owned(),
        kind: ValueKind::OneOf(NAMES),
        help: "The cloud: aws, or kwok, whose instances are Node objects without machines."
            .to_owned(),
    }
}

/// Returns the option definitions of the provider of that name. A name that this build has no
/// provider for has those of all.
pub(crate) fn option_definitions(name: &str) -> Vec<OptionDefinition> {
    match find(name) {
        Ok(provider) => provider.option_definitions(),
        Err(_) => all_option_definitions(),
    }
}

/// Returns the option definitions of all providers.
pub(crate) fn all_option_definitions() -> Vec<OptionDefinition> {
    let mut definitions: Vec<OptionDefinition> = Vec::new();
    for definition in all().iter().flat_map(|provider| provider.option_definitions()) {
        if !definitions.iter().any(|known| known.flag == definition.flag) {
            definitions.push(definition);
        }
    }
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_can_be_named() {
        for provider in all() {
            let name = provider.facts().name;
            assert!(NAMES.contains(&name), "{name}");
            assert_eq!(find(name).map(|found| found.facts().name), Ok(name));
        }
    }

    #[test]
    fn providers_redefine_no_option_of_core() {
        let core = karpenter_operator::options::definitions();
        for definition in all_option_definitions() {
            let is_same = |of_core: &OptionDefinition| {
                of_core.flag == definition.flag || of_core.env == definition.env
            };
            assert!(!core.iter().any(is_same), "{}", definition.flag);
        }
    }
}
