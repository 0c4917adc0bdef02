//! Converts NodeClaim fields for cloud providers: requirements, requests and resource quantities.

use std::collections::BTreeMap;

use karpenter_api::grammar::Quantity as QuantityText;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::requirement::{Aliases, Operator, Requirement, RequirementItem, Requirements};
use karpenter_core::resources::{Quantity, Resources};

use super::{CloudError, CloudResult};

/// The claim's requirements. One that means nothing is an error: to launch without it could give
/// the wrong node.
pub fn requirements(node_claim: &NodeClaim, aliases: &Aliases) -> CloudResult<Requirements> {
    let read = |wire: &karpenter_api::requirement::Requirement| {
        let karpenter_api::requirement::Requirement { key, operator, values, min_values } = wire;
        let item = RequirementItem::parse(key, operator, values.as_deref(), *min_values)
            .map_err(CloudError::other)?;
        Requirement::from_item(&item, aliases).map_err(CloudError::other)
    };
    node_claim.spec.requirements.iter().map(read).collect()
}

/// Returns the claim's resource requests. An invalid quantity is an error.
pub fn requests(node_claim: &NodeClaim) -> CloudResult<Resources> {
    let requests = node_claim.spec.resources.iter().filter_map(|r| r.requests.as_ref()).flatten();
    let read = |(name, text): (&String, &QuantityText)| match text.value() {
        Ok(amount) => Ok((name.clone(), Quantity::from(amount))),
        Err(error) => {
            Err(CloudError::other(format!("spec.resources.requests[{name}]: {error}: {text}")))
        }
    };
    requests.map(read).collect()
}

/// Resources as a status shows them.
pub fn quantities(resources: &Resources) -> BTreeMap<String, QuantityText> {
    let text = |quantity: Quantity| QuantityText::parse(quantity.canonical());
    resources.iter().map(|(name, quantity)| (name.to_owned(), text(quantity))).collect()
}

/// The labels that the requirements leave no choice about.
pub fn resolved_labels(requirements: &Requirements) -> impl Iterator<Item = (&str, &str)> {
    requirements.iter().filter_map(|requirement| {
        let is_single = requirement.operator() == Operator::In && requirement.len() == 1;
        let value = requirement.values().first().filter(|_| is_single)?;
        Some((requirement.key(), value.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(requirements: &Value, requests: &Value) -> NodeClaim {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": "web"},
            "spec": {
                "requirements": requirements,
                "resources": {"requests": requests},
                "nodeClassRef": {"group": "", "kind": "", "name": ""},
            },
        }))
        .unwrap()
    }

    #[test]
    fn requirements_of_one_value_are_labels() {
        let claim = claim(
            &json!([
                {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]},
                {"key": "two", "operator": "In", "values": ["a", "b"]},
                {"key": "not", "operator": "NotIn", "values": ["a"]},
                {"key": "some", "operator": "Exists"},
                {"key": "none", "operator": "DoesNotExist"},
            ]),
            &json!({}),
        );
        let requirements = requirements(&claim, &Aliases::default()).unwrap();
        let labels: Vec<_> = resolved_labels(&requirements).collect();
        assert_eq!(labels, [("topology.kubernetes.io/zone", "a")]);
    }

    #[test]
    fn invalid_requirements_and_quantities_are_errors() {
        let cases = [
            (json!({"key": "a", "operator": "Is"}), "key a has an unsupported operator Is"),
            (json!({"key": "a", "operator": "Gt", "values": ["x"]}), "a"),
        ];
        for (item, text) in cases {
            let error = requirements(&claim(&json!([item]), &json!({})), &Aliases::default());
            assert!(error.unwrap_err().to_string().contains(text), "{text}");
        }
        let error = requests(&claim(&json!([]), &json!({"cpu": "x"}))).unwrap_err();
        assert!(error.to_string().starts_with("spec.resources.requests[cpu]: "), "{error}");
    }

    #[test]
    fn quantities_keep_their_notation() {
        let claim = claim(&json!([]), &json!({"cpu": "1500m", "memory": "2048Mi"}));
        let written = quantities(&requests(&claim).unwrap());
        let written: Vec<_> = written.iter().map(|(name, q)| (name.as_str(), q.as_str())).collect();
        assert_eq!(written, [("cpu", "1500m"), ("memory", "2Gi")]);
    }
}
