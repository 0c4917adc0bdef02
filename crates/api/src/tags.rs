//! EC2 tag keys that belong to Karpenter (spec 10 §9.3, §6.4).

use crate::labels;

/// Name shown in the AWS console: the node's name.
pub const NAME: &str = "Name";
/// Name of the NodeClaim.
pub const NODECLAIM: &str = "karpenter.sh/nodeclaim";
/// Name of the NodePool; the same key as the label.
pub const NODEPOOL: &str = labels::NODEPOOL;
/// Name of the EC2NodeClass; the same key as the label.
pub const EC2_NODE_CLASS: &str = labels::aws::EC2_NODE_CLASS;
/// Name of the EKS cluster.
pub const EKS_CLUSTER_NAME: &str = "eks:eks-cluster-name";
/// Start of the key that marks what a cluster owns; the cluster's name follows.
pub const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
/// Value of the cluster key on everything that Karpenter creates.
pub const OWNED: &str = "owned";
/// Region, on instance profiles; the same key as the label.
pub const REGION: &str = labels::REGION;

/// Start of every launch template name.
pub const LAUNCH_TEMPLATE_NAME_PREFIX: &str = labels::aws::GROUP;

/// Keys that `spec.tags` may not use; keys under [`CLUSTER_PREFIX`] are refused as well.
pub const RESTRICTED: [&str; 4] = [NODEPOOL, EKS_CLUSTER_NAME, EC2_NODE_CLASS, NODECLAIM];

/// Name of the cluster in releases before v1.0; only the converter knows it.
pub const MANAGED_BY: &str = "karpenter.sh/managed-by";

/// Tag keys of former releases, which mean nothing any more (spec 10 §9.3).
pub const REMOVED: [&str; 2] = [MANAGED_BY, labels::PROVISIONER_NAME];

/// Key that marks what the cluster `name` owns.
pub fn cluster(name: &str) -> String {
    format!("{CLUSTER_PREFIX}{name}")
}
