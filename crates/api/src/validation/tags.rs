//! Runtime validation of the tags of an EC2NodeClass (spec 10 §6.4).

use std::collections::BTreeMap;

use crate::tags;

/// Why `spec.tags` cannot be written to an instance: it uses keys that Karpenter writes itself.
pub fn restricted_tags(tags: &BTreeMap<String, String>) -> Option<String> {
    let restricted: Vec<_> =
        tags.keys().filter(|key| is_restricted(key)).map(|key| format!("{key:?}")).collect();
    (!restricted.is_empty())
        .then(|| format!("tags failed validation requirements (tags={})", restricted.join(", ")))
}

fn is_restricted(key: &str) -> bool {
    tags::RESTRICTED.contains(&key)
        || key.strip_prefix(tags::CLUSTER_PREFIX).is_some_and(is_cluster_name)
}

/// Whether EKS would take the text for a cluster name. The schema refuses every key that starts
/// like a cluster key; this check of old objects refuses only those that could be one.
fn is_cluster_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[&str]) -> Option<String> {
        restricted_tags(&keys.iter().map(|&key| (key.to_owned(), String::new())).collect())
    }

    #[test]
    fn tag_keys_of_karpenter_are_rejected() {
        assert_eq!(check(&["karpenter.sh/custom-key", "kubernetes.io/role/key", "Name"]), None);
        assert_eq!(
            check(&["karpenter.sh/nodepool", "a", "eks:eks-cluster-name"]).unwrap(),
            r#"tags failed validation requirements (tags="eks:eks-cluster-name", "karpenter.sh/nodepool")"#
        );
        for key in tags::RESTRICTED {
            assert!(check(&[key]).is_some(), "{key}");
        }
    }

    #[test]
    fn cluster_tag_keys_are_rejected_if_they_name_a_cluster() {
        for key in ["kubernetes.io/cluster/test", "kubernetes.io/cluster/0-a_B"] {
            assert!(check(&[key]).is_some(), "{key}");
        }
        for key in
            ["kubernetes.io/cluster/", "kubernetes.io/cluster/-a", "kubernetes.io/cluster/a.b"]
        {
            assert_eq!(check(&[key]), None, "{key}");
        }
    }
}
