//! What a pod asks of its node's labels (spec 20 §1.7).

use super::PodSpec;
use crate::requirement::Requirements;

impl PodSpec {
    /// Returns the requirements that the solver tries before any relaxation.
    ///
    /// They are the node selector, the first required term and the heaviest preferred term of node
    /// affinity. Of equally heavy terms the first counts.
    pub fn requirements(&self) -> Requirements {
        let mut requirements = self.strict_requirements();
        if let Some(preferred) = self
            .preferred_node_affinity
            .iter()
            .reduce(|heaviest, next| if next.weight > heaviest.weight { next } else { heaviest })
        {
            requirements.extend(preferred.term.iter().cloned());
        }
        requirements
    }

    /// The same without preferences: what stays when those are given up.
    pub fn strict_requirements(&self) -> Requirements {
        let mut requirements = self.node_selector.clone();
        if let Some(term) = self.node_affinity.first() {
            requirements.extend(term.iter().cloned());
        }
        requirements
    }
}

#[cfg(test)]
mod tests {
    use crate::pod::{PodSpec, WeightedTerm};
    use crate::requirement::{Aliases, Operator, RequirementItem, Requirements};
    use Operator::{Exists, In};

    const ZONE: &str = "topology.kubernetes.io/zone";

    fn term(items: &[(&str, Operator, &[&str])]) -> Requirements {
        let items: Vec<_> = items.iter().map(|&(k, o, v)| RequirementItem::new(k, o, v)).collect();
        Requirements::from_items(&items, &Aliases::default()).unwrap()
    }

    fn preferred(weight: i32, zone: &str) -> WeightedTerm<Requirements> {
        WeightedTerm { weight, term: term(&[(ZONE, In, &[zone])]) }
    }

    #[test]
    fn node_selector_first_term_and_heaviest_preference_are_merged() {
        let spec = PodSpec::default;
        #[rustfmt::skip]
        let cases = [
            ("20/A24", PodSpec { node_affinity: vec![term(&[(ZONE, In, &["x"]), (ZONE, Exists, &[])])], ..spec() },
                "topology.kubernetes.io/zone In [x]", "topology.kubernetes.io/zone In [x]"),
            ("20/A25", PodSpec { preferred_node_affinity: vec![preferred(1, "a"), preferred(100, "b")], ..spec() },
                "topology.kubernetes.io/zone In [b]", ""),
            ("first of equals", PodSpec { preferred_node_affinity: vec![preferred(1, "a"), preferred(1, "b")], ..spec() },
                "topology.kubernetes.io/zone In [a]", ""),
            ("20/A26", PodSpec { node_affinity: vec![term(&[("a", In, &["1"])]), term(&[("b", In, &["1"])])], ..spec() },
                "a In [1]", "a In [1]"),
            ("contradiction", PodSpec {
                node_selector: term(&[("a", In, &["1"])]), node_affinity: vec![term(&[("a", In, &["2"])])], ..spec()
            }, "a DoesNotExist", "a DoesNotExist"),
            ("nothing", spec(), "", ""),
        ];
        for (case, spec, all, strict) in cases {
            assert_eq!(spec.requirements().to_string(), all, "{case}");
            assert_eq!(spec.strict_requirements().to_string(), strict, "{case}, strict");
        }
    }

    #[test]
    fn every_source_of_requirements_has_normalized_keys() {
        let zone: &[_] = &[("failure-domain.beta.kubernetes.io/zone", In, &["a"][..])];
        let arch: &[_] =
            &[("beta.kubernetes.io/arch", In, &["a"][..]), ("beta.kubernetes.io/os", In, &["a"])];
        let others: &[_] = &[
            ("failure-domain.beta.kubernetes.io/region", In, &["a"][..]),
            ("beta.kubernetes.io/instance-type", In, &["a"]),
        ];
        let spec = PodSpec {
            node_selector: term(zone),
            node_affinity: vec![term(arch)],
            preferred_node_affinity: vec![WeightedTerm { weight: 1, term: term(others) }],
            ..PodSpec::default()
        };
        let requirements = spec.requirements();
        let keys: Vec<_> = requirements.keys().collect();
        let expected = [
            "kubernetes.io/arch",
            "kubernetes.io/os",
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/region",
            ZONE,
        ];
        assert_eq!(keys, expected, "20/A23");
    }
}
