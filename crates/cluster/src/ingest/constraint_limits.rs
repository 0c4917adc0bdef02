//! Bounds the scheduling constraints of one pod.
//!
//! Every user with permission to create pods can create one with ten thousand affinity terms. A scheduling pass
//! tries a pod again after each preference that it drops, so such a pod would delay all others. Its
//! constraints are not read; the pod is ignored with a reason that names the bound.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::wire::PodSpec as WireSpec;

#[cfg(test)]
mod tests;

/// The most scheduling terms of a pod: node selector entries, affinity terms, topology spread
/// constraints, tolerations, host ports, volumes, resource claims and requested resources.
///
/// Pods of real clusters have fewer than 50. With 1,000 affinity terms there is room for others.
pub const MAX_TERMS: usize = 1_100;

/// The most expressions, labels, namespaces and values in the terms of a pod.
pub const MAX_EXPRESSIONS: usize = 5_000;

/// The most combinations of constraints of a pod.
///
/// The scheduler counts the nodes of each topology spread constraint for each required node
/// affinity term, and adds each node preference to the longest required term.
pub const MAX_COMBINATIONS: usize = 10_000;

/// The size of a pod's constraints.
#[derive(Debug, Default, PartialEq, Eq)]
struct ConstraintCount {
    terms: usize,
    /// The entries of all selectors in the terms.
    expressions: usize,
    spread_constraints: usize,
    required_node_terms: usize,
    node_preferences: usize,
    /// The expressions of the longest required node affinity term, with the node selector.
    longest_required_term: usize,
}

/// Returns why the constraints of a pod exceed the bound; none if they do not.
pub fn excess(spec: &WireSpec) -> Option<String> {
    let count = ConstraintCount::of(spec);
    let (terms, expressions, combinations) = (count.terms, count.expressions, count.combinations());
    if terms > MAX_TERMS {
        Some(format!("pod has {terms} scheduling terms; at most {MAX_TERMS} are supported"))
    } else if expressions > MAX_EXPRESSIONS {
        Some(format!(
            "the scheduling terms of the pod have {expressions} expressions and values; \
             at most {MAX_EXPRESSIONS} are supported"
        ))
    } else if combinations > MAX_COMBINATIONS {
        Some(format!(
            "the node affinity and topology spread constraints of the pod have {combinations} \
             combinations; at most {MAX_COMBINATIONS} are supported"
        ))
    } else {
        None
    }
}

/// Returns how to get below the bound that an [`excess`] names; none for other texts.
pub fn suggest_fix(excess: &str) -> Option<String> {
    let is_about = |subject: &str| excess.contains(&format!("{subject}; at most"));
    if is_about("scheduling terms") {
        Some(format!(
            "use at most {MAX_TERMS} terms: merge affinity terms that differ in one value into one \
             term with operator In, replace pod anti-affinity by a topology spread constraint, and \
             move node constraints to the requirements of a NodePool"
        ))
    } else if is_about("expressions and values") {
        Some(format!(
            "use at most {MAX_EXPRESSIONS}: label the nodes or pods of a list, and select that \
             label instead of each of their values"
        ))
    } else if is_about("combinations") {
        Some(format!(
            "use at most {MAX_COMBINATIONS}: merge required node affinity terms into one term with \
             operator In, and drop spread constraints or node preferences"
        ))
    } else {
        None
    }
}

impl ConstraintCount {
    fn of(spec: &WireSpec) -> Self {
        let mut count = Self::default();
        let node_selector = spec.node_selector.as_ref().map_or(0, BTreeMap::len);
        count.terms += node_selector;
        count.terms += spec.tolerations.as_ref().map_or(0, Vec::len);
        count.terms += spec.volumes.as_ref().map_or(0, Vec::len);
        count.terms += spec.resource_claims.as_ref().map_or(0, Vec::len);
        let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let ports = containers().flat_map(|container| container.ports.iter().flatten());
        count.terms += ports.filter(|port| port.host_port.is_some_and(|port| port != 0)).count();
        let resources = containers().filter_map(|container| container.resources.as_ref());
        let resources = resources.chain(&spec.resources);
        let names = resources.flat_map(|resources| {
            resources.requests.iter().chain(&resources.limits).flat_map(|list| list.keys())
        });
        count.terms += names.collect::<BTreeSet<_>>().len();
        for constraint in spec.topology_spread_constraints.iter().flat_map(|all| all.iter()) {
            count.terms += 1;
            count.spread_constraints += 1;
            count.add_selector(constraint.label_selector.as_ref());
            count.expressions += constraint.match_label_keys.as_ref().map_or(0, Vec::len);
        }
        if let Some(affinity) = &spec.affinity {
            count.add_affinity(affinity);
        }
        count.longest_required_term += node_selector;
        count
    }

    fn combinations(&self) -> usize {
        self.spread_constraints * self.required_node_terms
            + self.node_preferences * self.longest_required_term
    }

    fn add_affinity(&mut self, affinity: &Affinity) {
        if let Some(node) = &affinity.node_affinity {
            let required = node.required_during_scheduling_ignored_during_execution.as_ref();
            for term in required.into_iter().flat_map(|required| &required.node_selector_terms) {
                let expressions = self.add_node_term(term);
                self.required_node_terms += 1;
                self.longest_required_term = self.longest_required_term.max(expressions);
            }
            let preferred = &node.preferred_during_scheduling_ignored_during_execution;
            for term in preferred.iter().flatten() {
                self.add_node_term(&term.preference);
                self.node_preferences += 1;
            }
        }
        if let Some(pods) = &affinity.pod_affinity {
            let required = &pods.required_during_scheduling_ignored_during_execution;
            required.iter().flatten().for_each(|term| self.add_pod_term(term));
            let preferred = &pods.preferred_during_scheduling_ignored_during_execution;
            preferred.iter().flatten().for_each(|term| self.add_pod_term(&term.pod_affinity_term));
        }
        if let Some(pods) = &affinity.pod_anti_affinity {
            let required = &pods.required_during_scheduling_ignored_during_execution;
            required.iter().flatten().for_each(|term| self.add_pod_term(term));
            let preferred = &pods.preferred_during_scheduling_ignored_during_execution;
            preferred.iter().flatten().for_each(|term| self.add_pod_term(&term.pod_affinity_term));
        }
    }

    /// Adds a term and returns its number of expressions.
    fn add_node_term(&mut self, term: &NodeSelectorTerm) -> usize {
        self.terms += 1;
        let add = |expression: &NodeSelectorRequirement| {
            1 + expression.values.as_ref().map_or(0, Vec::len)
        };
        let expressions = || term.match_expressions.iter().chain(&term.match_fields).flatten();
        self.expressions += expressions().map(add).sum::<usize>();
        expressions().count()
    }

    fn add_pod_term(&mut self, term: &PodAffinityTerm) {
        self.terms += 1;
        self.add_selector(term.label_selector.as_ref());
        self.add_selector(term.namespace_selector.as_ref());
        let lists = [&term.namespaces, &term.match_label_keys, &term.mismatch_label_keys];
        self.expressions += lists.into_iter().flatten().map(Vec::len).sum::<usize>();
    }

    fn add_selector(&mut self, selector: Option<&LabelSelector>) {
        let Some(selector) = selector else { return };
        self.expressions += selector.match_labels.as_ref().map_or(0, BTreeMap::len);
        for expression in selector.match_expressions.iter().flatten() {
            self.expressions += 1 + expression.values.as_ref().map_or(0, Vec::len);
        }
    }
}
