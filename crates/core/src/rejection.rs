//! The structured reasons why a solve does not place a pod.
//!
//! The texts are upstream's, character by character, since events and logs carry them (spec 20
//! §0.4).

use std::fmt;

use crate::id::PoolId;
use crate::requirement::{IncompatibleRequirements, Requirement, Requirements};
use crate::resources::Resources;
use crate::scheduling::limits::LimitRejection;
use crate::scheduling::min_values::MinValuesUnmet;
use crate::taint::Taint;

/// The reason why a solve did not place a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum PodRejection {
    /// The pod requests dynamic resources, which are disabled.
    DynamicResourcesIgnored,
    /// Its claims could not be resolved.
    DynamicResources(String),
    /// Its volumes could not be resolved.
    Volumes(String),
    /// No NodePool can launch anything, and no existing node takes it.
    NoUsablePool,
    /// Every NodePool rejected the pod, in the order of trial.
    Pools(Vec<PoolRejection>),
    /// The solve was cut short before the pod was tried again or explained.
    ///
    /// The pod found no node until then, although it might find one now.
    SolveCutShort,
    /// The pod's NodeClaim was dropped: its cheapest 600 types miss minValues.
    MinValuesMissedAfterTruncation {
        /// The pool's name.
        pool: String,
        /// What was missed.
        unmet: MinValuesUnmet,
    },
    /// The plan placed the pod against a rule, with the text of the violation.
    ///
    /// This is a bug of the solver. Verification has dropped the placement.
    PlanViolation(String),
}

/// The reason why one NodePool rejected a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolRejection {
    /// The pool.
    pub pool: PoolId,
    /// Its name, since texts carry it.
    pub name: String,
    /// The first check that the pod failed.
    pub reason: RejectionReason,
}

/// The first check that a pod failed on a node, NodeClaim or NodePool.
#[derive(Clone, Debug, PartialEq)]
pub enum RejectionReason {
    /// Taints that it does not tolerate.
    Taints(Vec<Taint>),
    /// A driver for whose volumes no instance type has enough attachments.
    ///
    /// None when each type has too few of another driver.
    VolumeLimit(Option<VolumeLimitExceeded>),
    /// Node selector or affinity.
    Requirements(IncompatibleRequirements),
    /// Where its volumes are.
    VolumeTopology(IncompatibleRequirements),
    /// Spread, affinity or anti-affinity leaves no domain.
    Topology(Box<TopologyRejection>),
    /// The domain that topology chose does not suit the candidate.
    TopologyResult(IncompatibleRequirements),
    /// No instance type is left.
    InstanceTypes(Box<InstanceTypesRejection>),
    /// The pool's limits.
    Limits(LimitRejection),
    /// A reserved offering that cannot be had now.
    Reserved(ReservedOfferingRejection),
    /// Dynamic resources, with the whole text.
    DynamicResources(String),
}

/// A CSI driver's volume limit that the pod would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLimitExceeded {
    /// The driver.
    pub driver: String,
    /// Attachments with this pod.
    pub count: usize,
    /// The most that a type allows.
    pub limit: u32,
}

/// The kinds of topology constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopologyKind {
    /// Spread constraint.
    Spread,
    /// Pod affinity.
    Affinity,
    /// Pod anti-affinity, own or of others.
    AntiAffinity,
}

/// A topology constraint that leaves no domain for the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologyRejection {
    /// Which kind.
    pub kind: TopologyKind,
    /// The topology key.
    pub key: String,
    /// The domains and their counts, sorted; the first 25.
    pub counts: Vec<(String, u32)>,
    /// The number of domains beyond the listed ones.
    pub omitted_domains: usize,
    /// What the pod allows.
    pub pod_domains: Requirement,
    /// What the candidate allows.
    pub node_domains: Requirement,
}

/// The reason why no instance type is left (spec 20 §3.10).
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceTypesRejection {
    /// minValues that were missed in Strict mode: then the flags do not matter.
    pub min_values: Option<MinValuesUnmet>,
    /// What the types had between them.
    pub flags: TypeFlags,
    /// The requirements that they were held against.
    pub requirements: Requirements,
    /// The pod's requests.
    pub requests: Resources,
    /// The least and the largest daemon overhead of the evaluated groups; none without daemons.
    pub overhead: Option<(Resources, Resources)>,
}

/// Which checks some instance type passed.
#[expect(clippy::struct_excessive_bools, reason = "six independent facts that pick a text")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeFlags {
    /// Some type meets the requirements.
    pub requirements: bool,
    /// Some type is large enough.
    pub fits: bool,
    /// Some type has an offering.
    pub offering: bool,
    /// Some type passes the first two and not the third.
    pub requirements_and_fits: bool,
    /// Some type passes first and third and not the second.
    pub requirements_and_offering: bool,
    /// Some type passes the last two and not the first.
    pub fits_and_offering: bool,
}

/// The reason why reserved offerings cannot be used (spec 45 §11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedOfferingRejection {
    /// There is capacity, but other NodeClaims of this solve hold it.
    HeldByOthers,
    /// All are full and there is nothing else; Strict mode.
    Full,
    /// All reserved offerings are full, in Fallback mode: an ordinary rejection.
    FullInFallbackMode,
    /// The NodeClaim would lose the reservations that it holds.
    WouldLoseReservations,
}

impl ReservedOfferingRejection {
    /// Returns whether the pod waits for the next loop.
    ///
    /// Such a pod gets no relaxation, no other NodePool and no event.
    pub fn defers_pod(self) -> bool {
        self != Self::FullInFallbackMode
    }
}

impl PodRejection {
    /// Returns whether the pod waits for a reservation; it then gets no event.
    pub fn waits_for_reservation(&self) -> bool {
        match self {
            Self::Pools(pools) => pools
                .iter()
                .any(|refusal| matches!(&refusal.reason, RejectionReason::Reserved(why) if why.defers_pod())),
            _ => false,
        }
    }
}

/// The whole tree of refusals for one pod: for each NodePool, for each instance type, what failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// NodePools in the order of trial.
    pub pools: Vec<PoolExplanation>,
}

/// What one NodePool would need to take the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolExplanation {
    /// The pool's name.
    pub pool: String,
    /// The reason why the NodePool rejected the pod.
    pub reason: RejectionReason,
    /// Each instance type with all checks that it failed; nearest miss (fewest, then cheapest)
    /// first. They are evaluated even if the NodePool rejected the pod by an earlier check.
    pub types: Vec<InstanceTypeMismatch>,
}

/// An instance type with the checks that it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceTypeMismatch {
    /// The type's name.
    pub instance_type: String,
    /// The failed checks; empty if this type alone would fit the pod.
    pub failed_checks: Vec<FailedCheck>,
}

/// One check that an instance type failed.
#[derive(Clone, Debug, PartialEq)]
pub enum FailedCheck {
    /// A requirement that it does not meet.
    Requirement(IncompatibleRequirements),
    /// A resource of which it has too little.
    Resource {
        /// Which.
        name: String,
        /// The required amount, daemons included.
        needed: crate::resources::Quantity,
        /// The available amount.
        available: crate::resources::Quantity,
    },
    /// No available offering suits.
    Offering,
    /// A host port that a daemon of the node takes.
    HostPort,
    /// The pool's limits.
    Limits,
}

impl fmt::Display for PodRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DynamicResourcesIgnored => f.write_str(
                "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter",
            ),
            Self::DynamicResources(text) | Self::Volumes(text) => f.write_str(text),
            Self::NoUsablePool => {
                f.write_str("nodepool requirements filtered out all available instance types")
            }
            Self::Pools(pools) => {
                for (position, refusal) in pools.iter().enumerate() {
                    if position > 0 {
                        f.write_str("; ")?;
                    }
                    write!(f, "{refusal}")?;
                }
                Ok(())
            }
            Self::SolveCutShort => {
                f.write_str("the solve ended before the pod could be tried again")
            }
            Self::MinValuesMissedAfterTruncation { pool, unmet } => write!(
                f,
                "pod didn’t schedule because NodePool couldn’t meet minValues requirements, \
                 validating minValues, {unmet} (NodePool={pool})"
            ),
            Self::PlanViolation(violation) => {
                write!(f, "planned placement violates a rule, this is a bug: {violation}")
            }
        }
    }
}

impl fmt::Display for PoolRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            RejectionReason::Limits(refusal) => write!(f, "{refusal} (NodePool={})", self.name),
            why => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for RejectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taints(taints) => {
                for (position, taint) in taints.iter().enumerate() {
                    if position > 0 {
                        f.write_str("; ")?;
                    }
                    write!(f, "did not tolerate taint (taint={taint})")?;
                }
                Ok(())
            }
            Self::VolumeLimit(limit) => {
                f.write_str("would exceed volume limit for all instance type options")?;
                match limit {
                    Some(VolumeLimitExceeded { driver, count, limit }) => write!(
                        f,
                        " (provisioner={driver}, volume-count={count}, volume-limit={limit})"
                    ),
                    None => Ok(()),
                }
            }
            Self::Requirements(why) => write!(f, "incompatible requirements, {why}"),
            Self::VolumeTopology(why) => write!(f, "incompatible volume requirements, {why}"),
            Self::Topology(why) => write!(f, "{why}"),
            Self::TopologyResult(why) => write!(f, "{why}"),
            Self::InstanceTypes(why) => write!(f, "{why}"),
            Self::Limits(why) => write!(f, "{why}"),
            Self::Reserved(why) => write!(f, "{why}"),
            Self::DynamicResources(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for TopologyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spread => "topology spread",
            Self::Affinity => "pod affinity",
            Self::AntiAffinity => "pod anti-affinity",
        })
    }
}

/// The missing closing parenthesis is upstream's (spec 20 Q16).
impl fmt::Display for TopologyRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key, counts, omitted_domains: more, pod_domains, node_domains } = self;
        write!(f, "unsatisfiable topology constraint for {kind}, key={key} (counts = ")?;
        for (position, (domain, count)) in counts.iter().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{domain}: {count}")?;
        }
        if *more > 0 {
            write!(f, " and {more} other(s)")?;
        }
        write!(f, ", podDomains = {pod_domains}, nodeDomains = {node_domains}")
    }
}

impl fmt::Display for InstanceTypesRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.min_values {
            Some(unmet) => write!(f, "{unmet}")?,
            None => f.write_str(self.flags.text())?,
        }
        write!(f, ", requirements={}, resources=", self.requirements)?;
        match &self.overhead {
            None => write!(f, "{}", self.requests.json())?,
            Some((least, largest)) => {
                let (least, largest) = (self.requests.merge(least), self.requests.merge(largest));
                if least == largest {
                    write!(f, "{}", least.json())?;
                } else {
                    write!(f, "min={}, max={}", least.json(), largest.json())?;
                }
            }
        }
        if self.min_values.is_none() && self.flags.only_resources_missing() {
            let million = crate::resources::Quantity::from_units(1_000_000);
            if self.requests.amount(crate::resources::CPU) >= million {
                f.write_str(" (CPU request >= 1 Million, m vs M typo?)")?;
            }
        }
        Ok(())
    }
}

impl TypeFlags {
    /// Whether types met the requirements and had offerings, but none was large enough.
    fn only_resources_missing(self) -> bool {
        self.requirements && !self.fits && self.offering
    }

    /// The text of the first row of spec 20 §3.10 that matches.
    fn text(self) -> &'static str {
        let Self { requirements, fits, offering, .. } = self;
        match (requirements, fits, offering) {
            (false, false, false) => {
                "no instance type met the scheduling requirements or had enough resources or had a required offering"
            }
            (false, false, true) => {
                "no instance type met the scheduling requirements or had enough resources"
            }
            (false, true, false) => {
                "no instance type met the scheduling requirements or had a required offering"
            }
            (true, false, false) => {
                "no instance type had enough resources or had a required offering"
            }
            (false, true, true) => "no instance type met all requirements",
            (true, false, true) => "no instance type has enough resources",
            (true, true, false) => "no instance type has the required offering",
            (true, true, true) if self.requirements_and_fits => {
                "no instance type which met the scheduling requirements and had enough resources, had a required offering"
            }
            (true, true, true) if self.fits_and_offering => {
                "no instance type which had enough resources and the required offering met the scheduling requirements"
            }
            (true, true, true) if self.requirements_and_offering => {
                "no instance type which met the scheduling requirements and the required offering had the required resources"
            }
            (true, true, true) => "no instance type met the requirements/resources/offering tuple",
        }
    }
}

impl fmt::Display for ReservedOfferingRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldByOthers => {
                "one or more instance types with compatible reserved offerings are available, but could not be reserved"
            }
            Self::Full => {
                "all compatible reserved offerings are full and no on-demand or spot fallback is available"
            }
            Self::FullInFallbackMode => {
                "the only compatible reserved offering is full; falling through to other NodePools"
            }
            Self::WouldLoseReservations => {
                "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"
            }
        })
    }
}
