//! What can be said about an EC2NodeClass without asking AWS.

use super::{Findings, restricted_tags};
use crate::ec2_nodeclass::Ec2NodeClassSpec;
use crate::kubelet;

/// Checks alias, tags and kubelet settings; `expressions` is the gate NodeClassCEL. The first
/// failing step of the kubelet checks speaks for all of them (spec 10 §6.6).
pub fn ec2_nodeclass(spec: &Ec2NodeClassSpec, expressions: bool) -> Findings {
    let mut findings = Findings::default();
    if let Err(error) = spec.alias() {
        findings.add_error(error.to_string());
    }
    if let Some(message) = spec.tags.as_ref().and_then(restricted_tags) {
        findings.add_error(message);
    }
    if let Some(settings) = &spec.kubelet {
        let checked = kubelet::check_structure(settings)
            .and_then(|()| kubelet::check_expressions(settings, expressions))
            .and_then(|()| kubelet::check_family(settings, spec.family()));
        findings.errors.extend(checked.err().map(|invalid| invalid.message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn errors(spec: Value) -> Vec<String> {
        let spec: Ec2NodeClassSpec = serde_json::from_value(spec).unwrap();
        ec2_nodeclass(&spec, false).errors
    }

    fn spec(alias: &str, kubelet: &Value, tags: &Value) -> Value {
        json!({
            "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
            "amiSelectorTerms": [{"alias": alias}], "kubelet": kubelet, "tags": tags,
        })
    }

    #[test]
    fn a_valid_node_class_has_no_findings() {
        assert_eq!(
            errors(spec("al2023@latest", &json!({"maxPods": 5}), &json!({"a": "b"}))),
            [""; 0]
        );
    }

    #[test]
    fn alias_tag_and_kubelet_errors_are_each_reported() {
        let found = errors(spec(
            "al2023@v1@2",
            &json!({"maxPods": "vcpus * 10"}),
            &json!({"karpenter.sh/nodepool": "x"}),
        ));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("'alias' is improperly formatted"), "{found:?}");
        assert!(found[1].contains("tags failed validation"), "{found:?}");
        assert!(found[2].contains("NodeClassCEL feature gate is disabled"), "{found:?}");
    }
}
