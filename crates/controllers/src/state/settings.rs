//! Settings of the mirror: how it reads objects.

use jiff::Timestamp;
use karpenter_api::validation::Provider;
use karpenter_cluster::ingest::{Gates, Settings};
use karpenter_operator::cloud::CloudProvider;
use karpenter_operator::options::{Gate, Options};

/// Returns the settings of the mirror of this process.
pub(crate) fn settings(cloud: &dyn CloudProvider, options: &Options) -> Settings {
    let gates = &options.feature_gates;
    let classes = cloud.supported_node_classes().into_iter();
    Settings {
        provider: provider(cloud),
        node_classes: classes.map(|class| (class.group, class.kind)).collect(),
        gates: Gates {
            node_overlay: gates.is_enabled(Gate::NodeOverlay),
            capacity_buffer: gates.is_enabled(Gate::CapacityBuffer),
            pod_deletion_cost_management: gates.is_enabled(Gate::PodDeletionCostManagement),
        },
        assume_pools_ready: false,
        // The mirror uses its clock.
        now: Timestamp::UNIX_EPOCH,
    }
}

/// Returns the provider's rules for labels and resources, for validation.
pub(crate) fn provider(cloud: &dyn CloudProvider) -> Provider {
    if cloud.name() == "aws" { Provider::aws() } else { Provider::kwok() }
}
