//! Resolves the instance types of each NodePool, without a cloud account.

use karpenter_api::labels;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::InstanceTypes;
use karpenter_kwok::catalog;
use karpenter_operator::cloud::ProviderLabels;
use serde_json::Value;

/// Finds the instance types that a NodePool can launch.
pub(super) trait InstanceTypeResolver {
    /// Returns the types of the pool. The node class is None if it is not among the objects.
    fn resolve(
        &mut self,
        pool: &NodePool,
        class: Option<&Value>,
    ) -> Result<InstanceTypes, UnresolvedTypes>;

    /// Returns the labels of the types.
    fn labels(&self) -> ProviderLabels;

    /// Returns what to know before believing the resolved types and their prices.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The reason why the types of a NodePool are not known, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnresolvedTypes {
    pub(super) problem: String,
    pub(super) fix: String,
}

const OTHER_TYPES_FIX: &str = "plan with the built-in types of KWOK (--provider kwok), or with your \
                               own (--instance-types FILE)";

/// Returns the reason why the types of the group's node classes are not known.
pub(super) fn unknown_types(group: &str) -> UnresolvedTypes {
    if group == labels::aws::GROUP {
        return UnresolvedTypes {
            problem: "the region is not known".to_owned(),
            fix: format!(
                "name the region (--region us-west-2, or AWS_REGION); or {OTHER_TYPES_FIX}"
            ),
        };
    }
    UnresolvedTypes {
        problem: format!("no provider of this version knows the instance types of {group}"),
        fix: OTHER_TYPES_FIX.to_owned(),
    }
}

/// The types of a file, for every NodePool.
pub(super) struct FileTypes {
    pub(super) types: InstanceTypes,
}

impl InstanceTypeResolver for FileTypes {
    fn resolve(
        &mut self,
        _: &NodePool,
        _: Option<&Value>,
    ) -> Result<InstanceTypes, UnresolvedTypes> {
        Ok(self.types.clone())
    }

    fn labels(&self) -> ProviderLabels {
        catalog::provider_labels(&self.types)
    }
}

/// The built-in types of KWOK.
pub(super) struct KwokTypes {
    types: InstanceTypes,
    /// Whether NodePools with node classes of other providers have these types, too.
    serves_all_pools: bool,
}

impl KwokTypes {
    /// Returns a resolver for NodePools with any node class.
    pub(super) fn for_all_pools() -> Self {
        Self { types: catalog::built_in().into(), serves_all_pools: true }
    }

    /// Returns a resolver for NodePools with a node class of KWOK.
    pub(super) fn for_own_pools() -> Self {
        Self { serves_all_pools: false, ..Self::for_all_pools() }
    }
}

impl InstanceTypeResolver for KwokTypes {
    fn resolve(
        &mut self,
        pool: &NodePool,
        _: Option<&Value>,
    ) -> Result<InstanceTypes, UnresolvedTypes> {
        let group = &pool.spec.template.spec.node_class_ref.group;
        if self.serves_all_pools || group == labels::kwok::GROUP {
            return Ok(self.types.clone());
        }
        Err(unknown_types(group))
    }

    fn labels(&self) -> ProviderLabels {
        catalog::provider_labels(&self.types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(group: &str) -> NodePool {
        let mut pool = NodePool::default();
        pool.spec.template.spec.node_class_ref.group = group.to_owned();
        pool
    }

    #[test]
    fn types_are_resolved_per_node_pool() {
        let count = |resolver: &mut dyn InstanceTypeResolver, group: &str| {
            let types = resolver.resolve(&pool(group), None);
            types.map(|types| types.len()).map_err(|unresolved| unresolved.problem)
        };
        let (kwok, aws, other) = (labels::kwok::GROUP, labels::aws::GROUP, "other.sh");
        for group in [kwok, aws, other] {
            assert_eq!(count(&mut KwokTypes::for_all_pools(), group), Ok(144), "{group}");
            assert_eq!(count(&mut FileTypes { types: [].into() }, group), Ok(0), "{group}");
        }
        let own = &mut KwokTypes::for_own_pools();
        assert_eq!(count(own, kwok), Ok(144));
        assert_eq!(count(own, aws), Err("the region is not known".to_owned()));
        let unknown = "no provider of this version knows the instance types of other.sh";
        assert_eq!(count(own, other), Err(unknown.to_owned()));
    }
}
