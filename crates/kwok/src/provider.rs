//! Plugs KWOK into a process: facts, its one option, and the cloud that it builds.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use karpenter_api::kwok_nodeclass::KwokNodeClass;
use karpenter_api::validation::ProviderRules;
use karpenter_core::catalog::InstanceTypes;
use karpenter_operator::cloud::{BoxError, ProviderLabels, RepairPolicy};
use karpenter_operator::options::{OptionDefinition, ValueKind};
use karpenter_operator::provider::{
    BuiltProvider, ConfiguredProvider, GivenOptions, InvalidOptions, NodeClassKind, Provider,
    ProviderEnvironment, ProviderFacts,
};

use crate::cloud::KwokCloud;
use crate::{catalog, repair};

#[cfg(test)]
mod tests;

/// The flag that names a file of instance types (spec 40 §10).
const INSTANCE_TYPES_FLAG: &str = "instance-types-file-path";
/// The largest file of instance types: a real cloud has a few MB.
pub const INSTANCE_TYPES_BYTES_MAX: u64 = 16 << 20;

/// The KWOK provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct KwokProvider;

/// The KWOK provider with its instance types.
#[derive(Clone, Debug)]
struct ConfiguredKwok {
    types: InstanceTypes,
}

/// Returns the facts about KWOK.
pub fn facts() -> ProviderFacts {
    ProviderFacts {
        name: "kwok",
        rules: ProviderRules::kwok(),
        // No report: upstream runs no status controller for this kind.
        node_classes: vec![NodeClassKind::of::<KwokNodeClass>()],
    }
}

impl Provider for KwokProvider {
    fn facts(&self) -> ProviderFacts {
        facts()
    }

    fn option_definitions(&self) -> Vec<OptionDefinition> {
        vec![OptionDefinition {
            flag: INSTANCE_TYPES_FLAG,
            env: "INSTANCE_TYPES_FILE_PATH",
            default: String::new(),
            kind: ValueKind::Text,
            help: "KWOK only: a JSON file of instance types in place of the built-in ones."
                .to_owned(),
        }]
    }

    fn configure(
        &self,
        given: &GivenOptions<'_>,
    ) -> Result<Box<dyn ConfiguredProvider>, InvalidOptions> {
        let path = given.resolved.text(INSTANCE_TYPES_FLAG);
        if path.is_empty() {
            return Ok(Box::new(ConfiguredKwok { types: catalog::built_in().into() }));
        }
        let invalid =
            |problem: String| InvalidOptions(format!("--{INSTANCE_TYPES_FLAG} {path}: {problem}"));
        let bytes = (given.read_file)(Path::new(path), INSTANCE_TYPES_BYTES_MAX)
            .map_err(|error| invalid(error.to_string()))?;
        let types = catalog::from_file(&bytes).map_err(|error| invalid(error.to_string()))?;
        if types.is_empty() {
            let problem = "it has no instance types, so that nothing could be launched";
            return Err(invalid(problem.to_owned()));
        }
        Ok(Box::new(ConfiguredKwok { types: types.into() }))
    }
}

impl ConfiguredProvider for ConfiguredKwok {
    fn repair_policies(&self) -> Vec<RepairPolicy> {
        repair::repair_policies()
    }

    fn labels(&self) -> ProviderLabels {
        catalog::provider_labels(&self.types)
    }

    fn build(
        self: Box<Self>,
        environment: ProviderEnvironment,
    ) -> BoxFuture<'static, Result<BuiltProvider, BoxError>> {
        Box::pin(async move {
            let ProviderEnvironment { client, clock, rng, tasks, .. } = environment;
            let cloud = KwokCloud::new(client, clock, &rng, tasks, self.types.iter().cloned());
            Ok(BuiltProvider::new(Arc::new(cloud)))
        })
    }
}
