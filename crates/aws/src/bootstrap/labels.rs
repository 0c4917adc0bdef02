//! Labels that the kubelet registers.

use std::collections::BTreeMap;

use karpenter_api::labels::{CAPACITY_TYPE, DO_NOT_SYNC_TAINTS, TRUE, domain};

use crate::ami_family::AmiFamily;

/// Domains, with their subdomains, whose labels the API server refuses from a kubelet.
const REFUSED_DOMAINS: [&str; 3] = ["node-restriction.kubernetes.io", "kubernetes.io", "k8s.io"];

/// Returns the labels that the kubelet registers (spec 50 §3.2).
///
/// They are the NodeClaim's labels, the chosen capacity type, and, except for Custom,
/// `karpenter.sh/do-not-sync-taints`. NodeRestriction would refuse some; these are left out, and
/// registration adds them to the node later.
pub fn node_labels(
    claim_labels: &BTreeMap<String, String>,
    capacity_type: &str,
    family: AmiFamily,
) -> BTreeMap<String, String> {
    let mut labels = claim_labels.clone();
    labels.insert(CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    if family != AmiFamily::Custom {
        labels.insert(DO_NOT_SYNC_TAINTS.to_owned(), TRUE.to_owned());
    }
    labels.retain(|key, _| !is_refused(key));
    labels
}

fn is_refused(key: &str) -> bool {
    let domain = domain(key);
    REFUSED_DOMAINS.into_iter().any(|refused| {
        domain.strip_suffix(refused).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}
