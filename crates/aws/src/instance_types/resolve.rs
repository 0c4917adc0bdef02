//! Resolves an instance type for a node class (spec 51 §2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::catalog::InstanceType;
use karpenter_core::requirement::Requirement;
use karpenter_core::resources::{MEMORY, Quantity};
use karpenter_core::scheduling::dra::DynamicResources;

use super::capacity;
use super::expressions::{ExpressionFailure, KubeletContext};
use super::labels::{self, SharedRequirements};
use super::overhead::{self, InvalidSetting, Overhead};
use super::settings::ResolutionOptions;
use crate::discovery::{InstanceTypeInfo, Network, OfferedZones, TypeFigures};

/// Everything that discovery found, ready for resolution.
#[derive(Debug, Default)]
pub struct Discovered {
    /// The instance types, by name.
    pub types: Vec<DiscoveredType>,
    /// All zones in which any instance type is sold.
    pub all_zones: BTreeSet<String>,
}

/// An instance type with the facts that no node class changes.
#[derive(Debug)]
pub struct DiscoveredType {
    /// The properties of the instance type.
    pub info: Arc<InstanceTypeInfo>,
    /// Figures that no API returns.
    pub figures: TypeFigures,
    /// The zones that sell it.
    pub zones: BTreeSet<String>,
    /// The labels that are the same for every node class.
    common_labels: Vec<Arc<Requirement>>,
}

impl Discovered {
    /// Prepares the facts of a region.
    ///
    /// An instance type without network information can host no pods; it is left out with a
    /// warning.
    pub fn new(
        types: impl IntoIterator<Item = InstanceTypeInfo>,
        zones: &OfferedZones,
        figures: &BTreeMap<String, TypeFigures>,
        region: &str,
    ) -> Self {
        let mut shared = SharedRequirements::default();
        let mut by_name = BTreeMap::new();
        for info in types {
            if network(&info).is_none() {
                tracing::warn!(
                    instance_type = info.name,
                    "ignoring instance type: EC2 reports no network cards for it"
                );
                continue;
            }
            let figures = figures.get(&info.name).copied().unwrap_or_default();
            let discovered = DiscoveredType {
                common_labels: labels::common_labels(&info, figures, region, &mut shared),
                zones: zones.get(&info.name).cloned().unwrap_or_default(),
                figures,
                info: Arc::new(info),
            };
            by_name.insert(discovered.info.name.clone(), discovered);
        }
        Self {
            types: by_name.into_values().collect(),
            all_zones: zones.values().flatten().cloned().collect(),
        }
    }

    /// Returns the instance type of this name.
    pub fn get(&self, name: &str) -> Option<&DiscoveredType> {
        let position = self.types.binary_search_by(|known| known.info.name.as_str().cmp(name));
        self.types.get(position.ok()?)
    }
}

/// Returns the network, if EC2 reports the cards that resolution needs.
fn network(info: &InstanceTypeInfo) -> Option<&Network> {
    info.network.as_ref().filter(|network| capacity::default_card_interfaces(network).is_some())
}

/// An instance type under a node class, without offerings.
#[derive(Clone, Debug)]
pub struct ResolvedType {
    /// The properties of the instance type.
    pub info: Arc<InstanceTypeInfo>,
    /// Labels, capacity and overhead; its list of offerings is empty.
    pub instance_type: InstanceType,
}

/// Why an instance type cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// EC2 reports no network cards.
    #[error("instance type {0}: EC2 reports no network cards")]
    NoNetwork(String),
    /// An expression for `maxPods` failed.
    #[error("resolving spec.kubelet.maxPods, {0}")]
    MaxPods(#[from] ExpressionFailure),
    /// A kubelet setting is no quantity.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
}

/// Resolves one instance type; `memory` replaces the estimate if nodes have reported it.
pub fn resolve(
    discovered: &DiscoveredType,
    context: KubeletContext<'_>,
    memory: Option<Quantity>,
    shared: &mut SharedRequirements,
) -> Result<ResolvedType, ResolveError> {
    let (info, settings) = (context.info, context.settings);
    let pods = resolved_pods(context)?;
    let overhead = overhead(context, pods)?;
    let is_windows = labels::is_windows(info, settings);
    let estimate = capacity::memory(info, context.options);
    let storage = capacity::ephemeral_storage(info, settings);
    let devices = capacity::devices(info, discovered.figures, settings, is_windows);
    let mut capacity = capacity::capacity(info, devices, (pods, estimate, storage));
    if let Some(memory) = memory {
        capacity.set(MEMORY, memory);
    }
    let requirements =
        labels::requirements(info, &discovered.common_labels, &discovered.zones, settings, shared);
    Ok(ResolvedType {
        info: Arc::clone(&discovered.info),
        instance_type: InstanceType {
            name: info.name.clone(),
            requirements: requirements.into(),
            offerings: Vec::new().into(),
            capacity: capacity.into(),
            overhead: overhead.total().into(),
            volume_limits: BTreeMap::new(),
            dynamic_resources: DynamicResources::default(),
            has_capacity_overlay: false,
        },
    })
}

/// Returns the number of pods of an instance type under a node class.
pub fn resolved_pods(context: KubeletContext<'_>) -> Result<i64, ResolveError> {
    let (info, settings, options) = (context.info, context.settings, context.options);
    let network = network(info).ok_or_else(|| ResolveError::NoNetwork(info.name.clone()))?;
    let pods = |max_pods| capacity::pods(info, network, settings, options, max_pods);
    Ok(pods(context.max_pods(pods(None))?))
}

/// Returns the parts of the overhead; `pods` is the resolved number.
pub fn overhead(context: KubeletContext<'_>, pods: i64) -> Result<Overhead, ResolveError> {
    let (info, settings) = (context.info, context.settings);
    let network = network(info).ok_or_else(|| ResolveError::NoNetwork(info.name.clone()))?;
    let kube = context.reserved("kubeReserved", &settings.kube_reserved, pods);
    let system = context.reserved("systemReserved", &settings.system_reserved, pods);
    let memory_pods = if settings.family.uses_eni_limited_memory_overhead() {
        capacity::eni_limited_pods(network, 0, settings)
    } else {
        pods
    };
    Ok(Overhead {
        kube_reserved: overhead::kube_reserved(info.vcpus, memory_pods, &kube)?,
        system_reserved: overhead::user_reserved("systemReserved", &system)?,
        eviction_threshold: overhead::eviction_threshold(
            capacity::memory(info, context.options),
            capacity::ephemeral_storage(info, settings),
            &settings.eviction_hard,
        )?,
    })
}

/// Checks every kubelet expression of a node class on every instance type (spec 51 §5.4).
///
/// Returns the first failure. Without expressions, or with the gate off, there is none.
pub fn check_expressions<'a>(
    types: impl IntoIterator<Item = &'a DiscoveredType>,
    context: impl Fn(&'a InstanceTypeInfo) -> KubeletContext<'a>,
    options: &ResolutionOptions,
) -> Result<(), ExpressionFailure> {
    for discovered in types {
        let context = context(&discovered.info);
        let Some(network) = network(&discovered.info) else { continue };
        let pods = |max| capacity::pods(context.info, network, context.settings, options, max);
        context.check(pods(None), pods)?;
    }
    Ok(())
}
