//! Explains why a pod fits no node, in kube-scheduler's words, and which changes may help.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The reason why a filter rejects a node for a pod.
/// The order is that of the filters. The first filter that fails rejects the node, with all its
/// reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RejectionReason {
    /// It is cordoned.
    Unschedulable,
    /// It has taints that the pod does not tolerate.
    Taint,
    /// The pod's node selector or affinity.
    NodeAffinity,
    /// A port of the pod is taken.
    Ports,
    /// It has as many pods as it may.
    Pods,
    /// Too little cpu is left.
    Cpu,
    /// Too little memory is left.
    Memory,
    /// Too little ephemeral storage is left.
    EphemeralStorage,
    /// Too little of another resource is left; the rejection counts name it.
    OtherResource,
    /// A claim that one pod may use is used by another.
    ReadWriteOncePod,
    /// It can attach no more volumes.
    VolumeCount,
    /// A bound volume cannot be reached.
    VolumeAffinity,
    /// A waiting claim can neither be bound nor provisioned.
    VolumeBinding,
    /// A claim is bound to a volume that is gone.
    VolumeMissing,
    /// A bound volume is labelled with another zone.
    VolumeZone,
    /// It is in no domain of a spread constraint.
    SpreadLabel,
    /// The pod would make its domain too full.
    Spread,
    /// The pods that it wants to be with are elsewhere.
    PodAffinity,
    /// Pods that it does not want to be with.
    PodAntiAffinity,
    /// Pods that do not want to be with it.
    ExistingAntiAffinity,
    /// The pod names other nodes.
    NotNamed,
}

use RejectionReason::{
    Cpu, EphemeralStorage, ExistingAntiAffinity, Memory, NodeAffinity, NotNamed, OtherResource,
    PodAffinity, PodAntiAffinity, Pods, Ports, ReadWriteOncePod, Spread, SpreadLabel, Taint,
    Unschedulable, VolumeAffinity, VolumeBinding, VolumeCount, VolumeMissing, VolumeZone,
};

const REASONS: [(RejectionReason, &str); 21] = [
    (Unschedulable, "node(s) were unschedulable"),
    (Taint, "node(s) had untolerated taint(s)"),
    (NodeAffinity, "node(s) didn't match Pod's node affinity/selector"),
    (Ports, "node(s) didn't have free ports for the requested pod ports"),
    (Pods, "Too many pods"),
    (Cpu, "Insufficient cpu"),
    (Memory, "Insufficient memory"),
    (EphemeralStorage, "Insufficient ephemeral-storage"),
    (OtherResource, ""),
    (
        ReadWriteOncePod,
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
         already in-use by another pod",
    ),
    (VolumeCount, "node(s) exceed max volume count"),
    (VolumeAffinity, "node(s) didn't match PersistentVolume's node affinity"),
    (VolumeBinding, "node(s) didn't find available persistent volumes to bind"),
    (VolumeMissing, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    (VolumeZone, "node(s) had no available volume zone"),
    (SpreadLabel, "node(s) didn't match pod topology spread constraints (missing required label)"),
    (Spread, "node(s) didn't match pod topology spread constraints"),
    (PodAffinity, "node(s) didn't match pod affinity rules"),
    (PodAntiAffinity, "node(s) didn't match pod anti-affinity rules"),
    (ExistingAntiAffinity, "node(s) didn't satisfy existing pods anti-affinity rules"),
    (NotNamed, "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
];

/// The rejection of one node, with the reasons of one filter.
/// It also says whether removing pods from the node could help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRejection {
    reasons: u32,
    pub(super) is_resolvable: bool,
}

impl NodeRejection {
    /// Returns a rejection that removing pods from the node cannot resolve.
    pub(super) fn unresolvable(reason: RejectionReason) -> Self {
        Self { reasons: bit(reason), is_resolvable: false }
    }

    /// Returns a rejection that removing pods from the node may resolve.
    pub(super) fn resolvable(reason: RejectionReason) -> Self {
        Self { reasons: bit(reason), is_resolvable: true }
    }

    /// No reason yet.
    pub(super) fn none() -> Self {
        Self { reasons: 0, is_resolvable: true }
    }

    pub(super) fn add(&mut self, reason: RejectionReason, is_resolvable: bool) {
        self.reasons |= bit(reason);
        self.is_resolvable &= is_resolvable;
    }

    pub(super) fn has(self, reason: RejectionReason) -> bool {
        self.reasons & bit(reason) != 0
    }

    /// Returns an error if there is a reason.
    pub(super) fn result(self) -> Result<(), Self> {
        if self.reasons == 0 { Ok(()) } else { Err(self) }
    }
}

fn bit(reason: RejectionReason) -> u32 {
    1 << reason as u32
}

/// The number of nodes for each rejection reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectionCounts {
    counts: [usize; REASONS.len()],
    /// Other resources that are short, by name.
    others: BTreeMap<String, usize>,
    /// Nodes where the removal of pods might help.
    resolvable: usize,
}

impl RejectionCounts {
    pub(super) fn count(&mut self, rejection: NodeRejection) {
        for (at, (reason, _)) in REASONS.iter().enumerate() {
            self.counts[at] += usize::from(rejection.has(*reason));
        }
        self.resolvable += usize::from(rejection.is_resolvable);
    }

    pub(super) fn count_other(&mut self, resource: &str) {
        *self.others.entry(resource.to_owned()).or_default() += 1;
    }

    pub(super) fn count_not_named(&mut self, nodes: usize) {
        self.counts[NotNamed as usize] += nodes;
    }

    /// On how many nodes there was this reason.
    pub fn of(&self, reason: RejectionReason) -> usize {
        self.counts[reason as usize]
    }

    /// `1 Insufficient cpu, 2 node(s) had untolerated taint(s)`, sorted as texts.
    fn text(&self) -> String {
        let known = REASONS.iter().zip(self.counts);
        let known = known.filter(|((reason, _), count)| *count > 0 && *reason != OtherResource);
        let known = known.map(|((_, text), count)| format!("{count} {text}"));
        let others = self.others.iter().map(|(name, count)| format!("{count} Insufficient {name}"));
        joined(known.chain(others))
    }

    fn blockers(&self) -> Blockers {
        let present = REASONS.iter().filter(|(reason, _)| self.of(*reason) > 0);
        present.fold(Blockers::NONE, |all, (reason, _)| all | Blockers::of(*reason))
    }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<_> = texts.collect();
    texts.sort();
    texts.join(", ")
}

/// The reason why the scheduler finds no node for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitError {
    /// There is no node.
    NoNodes,
    /// The pod was rejected before filtering: no node can fit it.
    PreFilterRejected {
        /// How many nodes there are.
        nodes: usize,
        /// Why.
        reason: String,
        /// What could help.
        blockers: Blockers,
    },
    /// The filters rejected every node.
    FilterRejected {
        /// How many nodes there are.
        nodes: usize,
        /// The rejections of the nodes, counted by reason.
        rejections: Box<RejectionCounts>,
        /// Whether the pod may preempt others.
        may_preempt: bool,
    },
}

impl FitError {
    /// Which changes could help.
    pub fn blockers(&self) -> Blockers {
        match self {
            Self::NoNodes => Blockers::NODES,
            Self::PreFilterRejected { blockers, .. } => *blockers,
            Self::FilterRejected { rejections, .. } => rejections.blockers(),
        }
    }
}

/// The message of the condition and the event.
///
/// Preemption is not tried here. The text says of every node on which it could be that there are no
/// victims, which is what kube-scheduler says while nothing of lower priority is there.
impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => f.write_str("no nodes available to schedule pods"),
            // What follows is the dynamic resources plugin, which has not seen the pod.
            Self::PreFilterRejected { nodes, reason, .. } => {
                write!(f, "0/{nodes} nodes are available: {reason}. not found")
            }
            Self::FilterRejected { nodes, rejections, may_preempt } => {
                write!(f, "0/{nodes} nodes are available: {}. ", rejections.text())?;
                f.write_str("no new claims to deallocate, preemption: ")?;
                if !may_preempt {
                    return f.write_str("not eligible due to preemptionPolicy=Never.");
                }
                let hopeless = nodes.saturating_sub(rejections.resolvable);
                let parts = [
                    (rejections.resolvable, "No preemption victims found for incoming pod"),
                    (hopeless, "Preemption is not helpful for scheduling"),
                ];
                let parts = parts.into_iter().filter(|(count, _)| *count > 0);
                let parts = joined(parts.map(|(count, text)| format!("{count} {text}")));
                write!(f, "0/{nodes} nodes are available: {parts}.")
            }
        }
    }
}

/// What keeps a pod from its node, as far as changes can help; a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blockers(u8);

impl Blockers {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Nodes are missing.
    pub const NODES: Self = Self(1);
    /// Taints, and nodes that are cordoned.
    pub const TAINTS: Self = Self(1 << 1);
    /// Labels of nodes.
    pub const LABELS: Self = Self(1 << 2);
    /// Capacity: resources, number of pods, ports.
    pub const CAPACITY: Self = Self(1 << 3);
    /// Claims, volumes, classes, limits of drivers.
    pub const VOLUMES: Self = Self(1 << 4);
    /// Where pods of a spread constraint are.
    pub const SPREAD: Self = Self(1 << 5);
    /// Where pods of affinity terms are.
    pub const PODS: Self = Self(1 << 6);
    /// Everything.
    pub const ALL: Self = Self(0x7f);

    /// Returns whether the two sets have a blocker in common.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn of(reason: RejectionReason) -> Self {
        Self::NODES
            | match reason {
                Unschedulable | Taint => Self::TAINTS,
                NodeAffinity | NotNamed => Self::LABELS,
                Ports | Pods | Cpu | Memory | EphemeralStorage | OtherResource => Self::CAPACITY,
                ReadWriteOncePod | VolumeCount | VolumeAffinity | VolumeBinding | VolumeMissing
                | VolumeZone => Self::VOLUMES,
                // A node that is no longer counted can lower the least domain.
                SpreadLabel | Spread => Self::SPREAD,
                PodAffinity | PodAntiAffinity | ExistingAntiAffinity => Self::PODS,
            }
    }
}

impl BitOr for Blockers {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Blockers {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}
