//! Collects the topology domains that the NodePools of a solve can offer (spec 20 §4.4).

use std::collections::{BTreeMap, BTreeSet};

use super::super::input::SolverInput;
use crate::labels::HOSTNAME;
use crate::requirement::{Requirement, Requirements};
use crate::taint::{Taint, Toleration, untolerated_taints};

/// The domains that NodePools offer, by key, with the taints of each pool.
pub(super) struct PoolDomains {
    by_key: BTreeMap<String, BTreeMap<String, Vec<Vec<Taint>>>>,
}

impl PoolDomains {
    /// Collects the domains of all NodePools.
    ///
    /// Only concrete values are domains (Q4). Labels that Karpenter adds are left out, and so are
    /// hostnames, which nodes register.
    pub(super) fn new(input: &SolverInput<'_>) -> Self {
        let mut pool_domains = Self { by_key: BTreeMap::new() };
        for pool in &input.snapshot.pools {
            let types = input.types(pool);
            if types.is_empty() {
                continue;
            }
            let mut own = pool.requirements.clone();
            own.extend(input.labels(&pool.labels).iter().cloned());
            pool_domains.insert(&own, &pool.taints);
            for instance_type in types {
                let mut both = own.clone();
                both.extend(instance_type.requirements.iter().cloned());
                pool_domains.insert(&both, &pool.taints);
            }
        }
        pool_domains
    }

    fn insert(&mut self, requirements: &Requirements, taints: &[Taint]) {
        let is_domain = |own: &&Requirement| !own.is_complement() && own.key() != HOSTNAME;
        for requirement in requirements.iter().filter(is_domain) {
            let domains = self.by_key.entry(requirement.key().to_owned()).or_default();
            for value in requirement.values() {
                let pools = domains.entry(value.clone()).or_default();
                if !pools.iter().any(|known| known == taints) {
                    pools.push(taints.to_vec());
                }
            }
        }
    }

    /// Returns every domain of a key.
    pub(super) fn all(&self, key: &str) -> BTreeSet<String> {
        self.by_key.get(key).into_iter().flat_map(|domains| domains.keys().cloned()).collect()
    }

    /// Returns the domains of a key in which some NodePool is tolerated.
    pub(super) fn tolerated(&self, key: &str, tolerations: &[Toleration]) -> BTreeSet<String> {
        let domains = self.by_key.get(key).into_iter().flatten();
        domains
            .filter(|(_, pools)| {
                pools.iter().any(|taints| untolerated_taints(taints, tolerations).is_empty())
            })
            .map(|(domain, _)| domain.clone())
            .collect()
    }
}
