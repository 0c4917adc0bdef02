//! What cached instance types and offerings depend on (spec 51 §2, §7.1).
//!
//! A key is the text of all inputs, so that two node classes share a result exactly if they are
//! alike in what matters.

use std::collections::BTreeSet;

use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use serde::Serialize;

use super::settings::ResolutionOptions;
use crate::offerings::OfferingContext;

/// Returns the key of resolved instance types.
///
/// The end time of a reservation is left out: it changes no label. Block devices count as a set.
pub(super) fn resolved(class: &Ec2NodeClass, options: &ResolutionOptions) -> String {
    let (spec, status) = (&class.spec, class.status.as_ref());
    let subnets = status.and_then(|status| status.subnets.as_deref()).unwrap_or_default();
    let zones: BTreeSet<_> =
        subnets.iter().map(|subnet| (&subnet.zone, subnet.zone_id.as_deref())).collect();
    let devices = spec.block_device_mappings.as_deref().unwrap_or_default();
    // The last mapping of family Custom is its root volume.
    let last_device = devices.last().map(text);
    let devices: BTreeSet<_> = devices.iter().map(text).collect();
    let reservations = status.and_then(|status| status.capacity_reservations.as_deref());
    let reservations: Vec<_> = reservations
        .filter(|_| options.reserved_capacity)
        .unwrap_or_default()
        .iter()
        .map(|known| {
            text(&karpenter_api::ec2_nodeclass::CapacityReservation {
                end_time: None,
                ..known.clone()
            })
        })
        .collect();
    [
        text(&status.and_then(|status| status.amis.as_ref())),
        text(&zones),
        text(&spec.kubelet),
        text(&devices),
        text(&last_device),
        text(&reservations),
        text(&spec.network_interfaces),
        text(&spec.instance_store_policy),
        spec.family().to_owned(),
    ]
    .join("\n")
}

/// Returns the key of offerings; `resolved` is the key of the resolved instance types.
pub(super) fn offered(resolved: &str, class: &Ec2NodeClass, context: &OfferingContext) -> String {
    let spec = &class.spec;
    let status = class.status.as_ref();
    let subnets = status.and_then(|status| status.subnets.as_deref()).unwrap_or_default();
    let subnets: BTreeSet<_> = subnets.iter().map(|subnet| (&subnet.id, &subnet.zone)).collect();
    let group = context.placement_group.as_ref();
    let prices: Vec<_> =
        context.overlay_prices.iter().map(|(name, price)| (name, price.to_bits())).collect();
    [
        resolved.to_owned(),
        text(&subnets),
        text(&context.shifted_zone_ids),
        text(&spec.connection_tracking.is_some()),
        text(&spec.cpu_options.as_ref().map(|cpu| &cpu.nested_virtualization)),
        text(&spec.enclave_options.as_ref().map(|enclaves| enclaves.enabled)),
        text(&group.map(|group| (&group.id, &group.strategy, group.partition_count))),
        text(&prices),
    ]
    .join("\n")
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
