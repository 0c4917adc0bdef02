//! Whether an instance type can run as a node class wants it (spec 51 §6, spec 55 §2.1).

use super::settings::{ClassSettings, EFA_ONLY};
use crate::ami_family::AmiFamily;
use crate::discovery::{InstanceTypeInfo, NetworkCard};
use crate::offerings::PlacementGroup;

/// Returns whether EC2 can launch the instance type with the settings of a node class.
pub fn is_compatible(
    info: &InstanceTypeInfo,
    settings: &ClassSettings,
    placement_group: Option<&PlacementGroup>,
) -> bool {
    has_network_interfaces(info, settings)
        && !(settings.family == AmiFamily::Al2023 && info.name.starts_with("a1."))
        && (!settings.nested_virtualization || has_feature(info, "nested-virtualization"))
        && placement_group.is_none_or(|group| {
            let strategies = info.placement_strategies.as_deref().unwrap_or_default();
            strategies.contains(&group.strategy)
        })
        && (!settings.connection_tracking || info.hypervisor.as_deref() == Some("nitro"))
        && (!settings.enclaves || info.nitro_enclaves.as_deref() == Some("supported"))
}

fn has_feature(info: &InstanceTypeInfo, feature: &str) -> bool {
    info.processor.as_ref().is_some_and(|known| known.features.iter().any(|own| own == feature))
}

/// Returns whether the instance type has a place for every configured network interface.
fn has_network_interfaces(info: &InstanceTypeInfo, settings: &ClassSettings) -> bool {
    let Some(interfaces) = &settings.network_interfaces else { return true };
    let Some(network) = &info.network else { return false };
    let Some(cards) = &network.cards else { return false };
    let efa_only = interfaces.iter().filter(|one| one.interface_type == EFA_ONLY).count();
    let efas = network.maximum_efa_interfaces.unwrap_or_default();
    let has_place = |card: i32, device: i32| {
        let index = u32::try_from(card).ok();
        let card = cards.iter().find(|known: &&NetworkCard| Some(known.index) == index);
        let limit = card.map_or(0, |card| i64::from(card.maximum_interfaces));
        index.is_some_and(|index| usize::try_from(index).is_ok_and(|index| cards.len() > index))
            && limit > i64::from(device)
    };
    network.ena_support.as_deref() != Some("unsupported")
        && interfaces.iter().all(|one| has_place(one.network_card_index, one.device_index))
        && efa_only <= usize::try_from(efas).unwrap_or(usize::MAX)
}
