//! Annotation keys (spec 10 §9.2, spec 45 §1.2) and the registry of those that people meet
//! (spec 45 §1.3), from which the reference page is generated.

use crate::labels::{FALSE, TRUE};

/// Users: keeps voluntary disruption away from a Pod, Node or NodeClaim.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Users: keeps node repair away from a Node or NodeClaim.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
/// Users: what evicting a Pod costs, as a 32-bit integer.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";

/// Hash of a pool's template, on the pool and on its claims.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the algorithm behind [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// When a claim under deletion has to be gone, in RFC 3339.
pub const NODECLAIM_TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Whether the scheduler lowered some `minValues` for a claim.
pub const NODECLAIM_MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// DRA drivers that have to publish devices before a claim counts as initialized.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Boot id of a claim's node before repair restarted it.
pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// How long the drain before a restart may take.
pub const REBOOT_TERMINATION_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
/// An overlay changed a price that the launch of the claim used.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// An overlay changed a capacity that the launch of the claim used.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";

/// karpenter-rs only: workloads of the claim whose consolidation failed.
/// Each with the number of failures in a row.
pub const FAILED_CONSOLIDATIONS: &str = "karpenter-rs.dev/returned";

/// Marks the virtual pods of a buffer, which exist in memory only.
pub const CAPACITY_BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// Name of the buffer that a virtual pod belongs to.
pub const CAPACITY_BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// Namespace of the buffer that a virtual pod belongs to.
pub const CAPACITY_BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// AWS: hash of a node class, on the class and on its claims.
pub const EC2_NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// AWS: version of the algorithm behind [`EC2_NODE_CLASS_HASH`].
pub const EC2_NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// AWS: the instance of a claim carries its tags.
pub const INSTANCE_TAGGED: &str = "karpenter.k8s.aws/tagged";
/// AWS: the instance of a claim carries the cluster name tag too.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
/// AWS: the instance profile that a claim was launched with.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";

/// Annotations of the v1 webhooks that hold what has no place in v1; only the converter reads them.
pub mod compatibility {
    /// The kubelet block of a v1beta1 NodePool.
    pub const V1BETA1_KUBELET: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
    /// The node class reference of a v1beta1 NodePool.
    pub const V1BETA1_NODE_CLASS_REFERENCE: &str =
        "compatibility.karpenter.sh/v1beta1-nodeclass-reference";
    /// A v1beta1 EC2NodeClass of the Ubuntu family.
    pub const V1BETA1_UBUNTU: &str = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu";
    /// The alias version that a v1beta1 EC2NodeClass asked for.
    pub const V1_ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";
}

/// Annotation keys of former releases, which mean nothing any more (spec 10 §9.3, spec 45 §1.2).
pub const REMOVED: [&str; 14] = [
    "karpenter.sh/do-not-evict",
    "karpenter.sh/do-not-consolidate",
    "karpenter.sh/emptiness-timestamp",
    "karpenter.sh/linked",
    crate::tags::MANAGED_BY,
    "karpenter.sh/provisioner-hash",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.sh/stored-version-migrated",
    compatibility::V1BETA1_KUBELET,
    compatibility::V1BETA1_NODE_CLASS_REFERENCE,
    compatibility::V1BETA1_UBUNTU,
    compatibility::V1_ALIAS_VERSION,
    "compatibility.karpenter.k8s.aws/kubelet-drift-hash",
    "compatibility.karpenter.sh/provider",
];

/// How far along a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// May change or go away.
    Alpha,
    /// Here to stay, though details may change.
    Beta,
    /// Stable.
    Ga,
}

/// One annotation of the registry.
#[derive(Clone, Copy, Debug)]
pub struct AnnotationEntry {
    /// The key.
    pub name: &'static str,
    /// A value as it may occur.
    pub example: &'static str,
    /// Kinds that carry it.
    pub kinds: &'static [&'static str],
    /// What it is for.
    pub help: &'static str,
    /// How far along it is.
    pub stage: Stage,
    /// Whether only Karpenter may write it.
    pub internal: bool,
}

/// Returns the reference page as Markdown.
pub fn reference_page() -> String {
    let row = |entry: &AnnotationEntry| {
        let kinds = entry.kinds.join(", ");
        let stage = match entry.stage {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
            Stage::Ga => "GA",
        };
        let writer = if entry.internal { "Karpenter" } else { "you" };
        let AnnotationEntry { name, example, help, .. } = entry;
        format!("| `{name}` | {kinds} | {writer} | {stage} | `{example}` | {help} |\n")
    };
    let rows: String = REGISTRY.iter().map(row).collect();
    format!(
        "# Annotations\n\n\
         <!-- Written by `cargo xtask codegen` from crates/api/src/annotations.rs. -->\n\n\
         | Key | On | Written by | Stage | Example | Meaning |\n\
         |---|---|---|---|---|---|\n\
         {rows}"
    )
}

/// Every annotation of the core that the reference page shows.
pub const REGISTRY: [AnnotationEntry; 11] = [
    AnnotationEntry {
        name: DO_NOT_DISRUPT,
        example: TRUE,
        kinds: &["Pod", "Node", "NodeClaim"],
        help: "Keeps consolidation and drift away. On a Pod a duration such as `5m` protects \
               until the pod has run that long. On a NodeClaim it counts until its node has \
               registered, which takes it over. Expiration, repair and forceful termination go on.",
        stage: Stage::Ga,
        internal: false,
    },
    AnnotationEntry {
        name: DO_NOT_REPAIR,
        example: TRUE,
        kinds: &["Node", "NodeClaim"],
        help: "Keeps node repair away, be it by replacement or by reboot.",
        stage: Stage::Alpha,
        internal: false,
    },
    AnnotationEntry {
        name: NODEPOOL_HASH,
        example: "6821555240594823858",
        kinds: &["NodePool", "NodeClaim"],
        help: "Hash of the pool's template. A claim whose hash differs from its pool's has drifted.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: NODEPOOL_HASH_VERSION,
        example: "v3",
        kinds: &["NodePool", "NodeClaim"],
        help: "Version of the hash; hashes of different versions are not compared.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: NODECLAIM_TERMINATION_TIMESTAMP,
        example: "2026-10-01T22:00:00Z",
        kinds: &["NodeClaim"],
        help: "When the drain has to be over; pods are deleted early enough to end by then.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: NODECLAIM_MIN_VALUES_RELAXED,
        example: FALSE,
        kinds: &["NodeClaim"],
        help: "Whether the claim could only be made by lowering some minValues.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: REQUESTED_DRA_DRIVERS,
        example: "gpu.nvidia.com",
        kinds: &["NodeClaim"],
        help: "DRA drivers, separated by commas, whose devices the claim's pods were given. Each \
               has to publish its devices before the node counts as initialized.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: REBOOT_PRE_BOOT_ID,
        example: "2b6c2f9e-3a8d-4f4e-9c1a-7d5e8b0f6a12",
        kinds: &["NodeClaim"],
        help: "Boot id of the node before the reboot; another one means that it has happened.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: REBOOT_TERMINATION_GRACE_PERIOD,
        example: "10m",
        kinds: &["NodeClaim"],
        help: "Longest time that the drain before a reboot may take; absent means unbounded, `0s` \
               means no drain.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: FAILED_CONSOLIDATIONS,
        example: "default/ReplicaSet/web-5d9c=1,pods=9f2c41d07be35a68",
        kinds: &["NodeClaim"],
        help: "karpenter-rs only. Workloads whose pods found no room after a consolidation, so that \
               the claim had to be launched, and how often in a row. Consolidation leaves nodes with \
               their pods alone for 10 minutes after its creation, twice as long each next time; \
               from the third time on for a day, as long as the same pods run.",
        stage: Stage::Alpha,
        internal: true,
    },
    AnnotationEntry {
        name: DISRUPTION_COST,
        example: "100",
        kinds: &["Pod"],
        help: "Cost of evicting the pod, a 32-bit integer. Consolidation prefers nodes whose pods \
               cost less.",
        stage: Stage::Alpha,
        internal: false,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn registry_entries_are_complete_and_unique() {
        let mut names = BTreeSet::new();
        for entry in REGISTRY {
            let AnnotationEntry { name, example, kinds, help, stage, internal } = entry;
            // The stage is a type, so it cannot be missing.
            for text in [name, example, help] {
                assert!(!text.is_empty(), "45/AP-4: {entry:?}");
            }
            assert!(!kinds.is_empty() && kinds.iter().all(|kind| !kind.is_empty()), "45/AP-4");
            assert!(!internal || stage == Stage::Alpha, "45/AP-4: {name} is internal, not alpha");
            assert!(names.insert(name), "45/AP-4: {name} is listed twice");
        }
    }

    #[test]
    fn removed_keys_are_not_used() {
        for name in REGISTRY.map(|entry| entry.name) {
            assert!(!REMOVED.contains(&name), "{name}");
        }
    }
}
