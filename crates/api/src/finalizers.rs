//! Finalizers: cleanup that has to finish before an object is removed (spec 10 §9.3).

/// On NodeClaims and Nodes: the instance has to be gone first.
pub const TERMINATION: &str = "karpenter.sh/termination";
/// On EC2NodeClasses: instance profiles and launch templates have to be gone first.
pub const EC2_NODE_CLASS_TERMINATION: &str = "karpenter.k8s.aws/termination";
