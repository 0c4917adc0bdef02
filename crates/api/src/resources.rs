//! Resource names (spec 10 §9.3, §4.3).

/// CPU, in cores.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Local disk for pods, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Number of pods.
pub const PODS: &str = "pods";
/// Process ids; only reservable, never requested.
pub const PID: &str = "pid";
/// Pseudo resource of limits and status: the number of nodes.
pub const NODES: &str = "nodes";

/// Nvidia GPUs.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// AMD GPUs.
pub const AMD_GPU: &str = "amd.com/gpu";
/// Neuron devices.
pub const AWS_NEURON: &str = "aws.amazon.com/neuron";
/// Cores of Neuron devices.
pub const AWS_NEURON_CORE: &str = "aws.amazon.com/neuroncore";
/// Gaudi accelerators.
pub const HABANA_GAUDI: &str = "habana.ai/gaudi";
/// Branch network interfaces for pods with their own security groups.
pub const AWS_POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// IPv4 addresses for Windows pods.
pub const AWS_PRIVATE_IPV4_ADDRESS: &str = "vpc.amazonaws.com/PrivateIPv4Address";
/// Elastic fabric adapters.
pub const AWS_EFA: &str = "vpc.amazonaws.com/efa";
/// Nitro sandboxes.
pub const AWS_NITRO_SANDBOX: &str = "eks.amazonaws.com/nitro-sandbox";

/// Resources that every instance type reports; an overlay may not change them.
pub const WELL_KNOWN: [&str; 4] = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];

/// Resources that the AWS provider adds to [`WELL_KNOWN`]. GPUs are absent on purpose: an overlay
/// may state them (spec 10 §4.3).
pub const AWS_WELL_KNOWN: [&str; 5] =
    [AWS_POD_ENI, AWS_NEURON, AWS_NEURON_CORE, HABANA_GAUDI, AWS_EFA];

/// What a kubelet may set aside (spec 10 §6.6), in the order that messages list it.
pub const RESERVABLE: [&str; 4] = [CPU, MEMORY, EPHEMERAL_STORAGE, PID];
