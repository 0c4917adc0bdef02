//! Labels that decisions know by name.

/// The label that is different on each node.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The instance type.
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The NodePool.
pub(crate) const NODE_POOL: &str = "karpenter.sh/nodepool";
/// On nodes that have joined.
pub(crate) const REGISTERED: &str = "karpenter.sh/registered";
/// On nodes that are ready for pods.
pub(crate) const INITIALIZED: &str = "karpenter.sh/initialized";
