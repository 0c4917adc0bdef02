//! Settings of the mirror: how it reads objects.

use jiff::Timestamp;
use karpenter_cluster::ingest::{Gates, Settings};
use karpenter_operator::options::{Gate, Options};
use karpenter_operator::provider::ProviderFacts;

/// Returns the settings of the mirror of this process.
pub(crate) fn settings(provider: &ProviderFacts, options: &Options) -> Settings {
    let gates = &options.feature_gates;
    let classes = provider.node_classes.iter().map(|class| (class.group, class.kind));
    Settings {
        gates: Gates {
            node_overlay: gates.is_enabled(Gate::NodeOverlay),
            capacity_buffer: gates.is_enabled(Gate::CapacityBuffer),
            pod_deletion_cost_management: gates.is_enabled(Gate::PodDeletionCostManagement),
        },
        // The mirror uses its clock, not the time of the settings.
        ..Settings::new(provider.rules.clone(), classes, Timestamp::UNIX_EPOCH)
    }
}
