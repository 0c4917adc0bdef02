//! Pods for tests.

use std::sync::Arc;

use jiff::Timestamp;

use super::{OwnerKind, Phase, Pod, PodSpec};
use crate::selector::Labels;

/// Returns a pending pod of namespace `default` that is marked Unschedulable.
pub(crate) fn pending_pod(name: &str) -> Pod {
    Pod {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created: Timestamp::UNIX_EPOCH,
        labels: Arc::new(Labels::new()),
        spec: Arc::new(PodSpec::default()),
        volume_claims: Vec::new(),
        node: None,
        phase: Phase::Pending,
        terminating: false,
        unschedulable: true,
        preempting: false,
        owner: OwnerKind::Other,
        controller: None,
        do_not_disrupt: false,
        eviction_cost: 1.0,
        is_unready: false,
        has_unparsed_constraints: false,
        is_virtual: false,
        problem: None,
    }
}

/// Returns a [`pending_pod`] with these PersistentVolumeClaims.
#[cfg(test)]
pub(crate) fn pod_with_volume_claims(name: &str, claims: &[&str]) -> Pod {
    Pod {
        volume_claims: claims.iter().map(|&claim| claim.to_owned()).collect(),
        ..pending_pod(name)
    }
}
