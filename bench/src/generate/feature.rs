//! The features that the profiles `wide` and `disruption` may add to a cluster. Each is
//! independent, so that a difference can be narrowed down to one of them.

use clap::ValueEnum;

use crate::random::SeededRng;

/// Something that a cluster may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Feature {
    /// Claims, volumes and classes with zones, late binding, CSI limits
    Volumes,
    /// Several namespaces, affinity across them
    Namespaces,
    /// NodeOverlays (turns the gate on)
    Overlays,
    /// Reserved offerings (an instance-types file)
    Reserved,
    /// CapacityBuffers (turns the gate on)
    Buffers,
    /// Limits that are reached
    TightLimits,
    /// DaemonSets with host ports and selectors
    Daemons,
    /// Existing nodes that are starting, tainted, leaving or not ours
    RoughNodes,
    /// StatefulSets with a claim per pod
    StatefulSets,
    /// Labels of the user's own, in pools and affinities
    CustomLabels,
    /// A pool with PreferNoSchedule
    SoftTaints,
    /// Pools with minValues
    MinValues,
    /// Pools of several weights
    Weights,
    /// minDomains, matchLabelKeys and the inclusion policies
    Spread,
    /// Preferred terms of all kinds, several per pod
    Preferences,
    /// Extended resources, init containers, pod overhead
    Requests,

    /// PodDisruptionBudgets that allow some, none, or overlap
    Pdbs,
    /// Nodes and pods with karpenter.sh/do-not-disrupt
    DoNotDisrupt,
    /// Budgets of pools by count, share, reason and schedule
    Budgets,
    /// Nodes of several pools, one with a taint
    MixedPools,
    /// Spot nodes, and a pool that allows spot
    Spot,
    /// Nodes without pods, or with pods of daemons only
    EmptyNodes,
    /// Pools with other policies than WhenEmptyOrUnderutilized
    Policies,
    /// Nodes whose consolidateAfter has not passed
    Settling,
    /// Running pods with priorities and deletion costs
    Costs,
    /// Running pods with selectors, spread and anti-affinity
    Constraints,
}

impl Feature {
    /// Those that `wide` draws from.
    const OF_WIDE: &[Self] = &[
        Self::Volumes,
        Self::Namespaces,
        Self::Overlays,
        Self::Reserved,
        Self::Buffers,
        Self::TightLimits,
        Self::Daemons,
        Self::RoughNodes,
        Self::StatefulSets,
        Self::CustomLabels,
        Self::SoftTaints,
        Self::MinValues,
        Self::Weights,
        Self::Spread,
        Self::Preferences,
        Self::Requests,
    ];
    /// Those that `disruption` draws from.
    const OF_DISRUPTION: &[Self] = &[
        Self::Pdbs,
        Self::DoNotDisrupt,
        Self::Budgets,
        Self::MixedPools,
        Self::Spot,
        Self::EmptyNodes,
        Self::Policies,
        Self::Settling,
        Self::Costs,
        Self::Constraints,
        Self::RoughNodes,
        Self::MinValues,
        Self::Weights,
        Self::Daemons,
    ];
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// Returns each feature of `wide` with a chance of about a third.
    pub fn draw_wide(random: &mut SeededRng) -> Self {
        Self::draw_from(Feature::OF_WIDE, random)
    }

    /// About a third of those that `disruption` may have.
    pub fn draw_disruption(random: &mut SeededRng) -> Self {
        Self::draw_from(Feature::OF_DISRUPTION, random)
    }

    /// Each with a chance of its own.
    fn draw_from(features: &[Feature], random: &mut SeededRng) -> Self {
        features.iter().copied().filter(|_| random.rng(0.35)).collect()
    }

    pub fn has(self, feature: Feature) -> bool {
        self.0 & Self::bit(feature) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::value_variants().iter().copied().filter(move |feature| self.has(*feature))
    }

    /// Their names, as the command line takes them.
    pub fn names(self) -> String {
        let values = self.iter().filter_map(|feature| feature.to_possible_value());
        values.map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(",")
    }

    fn bit(feature: Feature) -> u32 {
        1 << (feature as u32)
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self(features.into_iter().fold(0, |bits, feature| bits | Self::bit(feature)))
    }
}
