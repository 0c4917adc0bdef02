//! Checks one node or NodeClaim: taints, labels, resources, ports and volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Level;
use super::amounts::AmountTable;
use super::planned_cluster::{
    HOSTNAME, PlannedCluster, PlannedNode, PlannedNodeKind, first_untolerated_taint,
    node_affinity_alternatives, types_of,
};
use super::violation::Violation;
use crate::catalog::InstanceType;
use crate::plan::PlannedNodeClaim;
use crate::pod::{OwnerKind, Pod, PodSpec};
use crate::requirement::{Requirement, Requirements};
use crate::resources::{Quantity, Resources};
use crate::scheduling::{MinValuesPolicy, min_values};
use crate::snapshot::{Daemon, Pool, StateNode};
use crate::volume::Attachments;

/// Checks nodes and NodeClaims one by one.
pub(super) struct FitCheck<'c, 'a> {
    cluster: &'c PlannedCluster<'a>,
    level: Level,
    amounts: AmountTable,
}

impl<'c, 'a> FitCheck<'c, 'a> {
    pub(super) fn new(cluster: &'c PlannedCluster<'a>, level: Level) -> Self {
        Self { cluster, level, amounts: AmountTable::default() }
    }

    pub(super) fn check(&mut self, place: &PlannedNode<'a>, found: &mut Vec<Violation>) {
        for pod in &place.placed {
            check_admission(self.cluster, place, pod, found);
        }
        check_host_ports(place, found);
        match &place.kind {
            PlannedNodeKind::Node { node, is_active } => {
                if !is_active {
                    found.push(Violation::NodeGone { node: node.name.clone() });
                }
                self.check_existing_node(place, node, found);
            }
            PlannedNodeKind::Claim { claim, position, list, .. } => {
                self.check_node_claim(place, claim, *position, list, found);
                if self.level == Level::Complete {
                    check_launch(self.cluster, place, found);
                }
            }
        }
        check_volume_limits(self.cluster, place, found);
    }

    /// Checks that bound pods, new pods and missing daemons fit the node.
    ///
    /// Missing daemons count with [`Level::Complete`].
    fn check_existing_node(
        &mut self,
        place: &PlannedNode<'_>,
        node: &StateNode,
        found: &mut Vec<Violation>,
    ) {
        let new = self.amounts.requests(place.placed.iter().map(|pod| &*pod.spec));
        let all = place.bound.iter().chain(&place.placed);
        let used = self.amounts.requests(all.map(|pod| &*pod.spec));
        let to_come = match self.level {
            Level::Essential => Resources::default(),
            Level::Complete => missing_daemons(self.cluster, place, node),
        };
        let mut short = |resource: &str| {
            let resource = resource.to_owned();
            found.push(Violation::NodeTooSmall { node: node.name.clone(), resource });
        };
        // Bound pods may hold what the node no longer lists; new ones may not ask for it.
        let used: BTreeMap<&str, Quantity> = self.amounts.named(&used).collect();
        for (resource, has) in node.allocatable.iter() {
            let used = used.get(resource).copied().unwrap_or(Quantity::ZERO);
            if used.saturating_add(to_come.amount(resource)) > has {
                short(resource);
            }
        }
        for (resource, amount) in self.amounts.named(&new) {
            if amount > Quantity::ZERO && node.allocatable.get(resource).is_none() {
                short(resource);
            }
        }
    }

    /// Checks that the requests and every instance type of a NodeClaim cover its pods.
    fn check_node_claim(
        &mut self,
        place: &PlannedNode<'_>,
        claim: &PlannedNodeClaim,
        position: usize,
        list: &[Arc<InstanceType>],
        found: &mut Vec<Violation>,
    ) {
        if claim.instance_types.is_empty() || place.placed.is_empty() {
            found.push(Violation::EmptyClaim { claim: position });
        }
        let need = self.amounts.requests(place.placed.iter().map(|pod| &*pod.spec));
        for (resource, amount) in self.amounts.named(&need) {
            if claim.requests.amount(resource) < amount {
                let resource = resource.to_owned();
                found.push(Violation::Requests { claim: position, resource });
            }
        }
        for at in self.amounts.too_small(&need, &claim.instance_types, list) {
            let instance_type = list[at as usize].name.clone();
            found.push(Violation::TypeTooSmall { claim: position, instance_type });
        }
    }
}

/// Checks taints, node affinity and volume topology of one pod.
fn check_admission(
    places: &PlannedCluster<'_>,
    place: &PlannedNode<'_>,
    pod: &Pod,
    found: &mut Vec<Violation>,
) {
    let (name, target) = (|| pod.full_name(), || place.target.clone());
    if let Some(taint) = first_untolerated_taint(place.taints(), &pod.spec.tolerations) {
        found.push(Violation::Taint { pod: name(), target: target(), taint: taint.clone() });
    }
    if !meets_node_affinity(places, place, &pod.spec) {
        found.push(Violation::NodeAffinity { pod: name(), target: target() });
    }
    if pod.volume_claims.is_empty() {
        return;
    }
    let volumes = places.request.snapshot.volumes.node_requirement_alternatives(pod);
    let is_reachable = volumes.is_ok_and(|volumes| {
        volumes.is_empty()
            || volumes.iter().any(|requested| meets_requirements(places, place, requested))
    });
    if !is_reachable {
        found.push(Violation::VolumeTopology { pod: name(), target: target() });
    }
}

/// Returns whether a node or NodeClaim meets the node selector and a required term.
fn meets_node_affinity(
    places: &PlannedCluster<'_>,
    place: &PlannedNode<'_>,
    spec: &PodSpec,
) -> bool {
    if spec.node_selector.is_empty() && spec.node_affinity.is_empty() {
        return true;
    }
    match &place.kind {
        PlannedNodeKind::Node { .. } => node_affinity_alternatives(spec)
            .iter()
            .any(|requested| meets_requirements(places, place, requested)),
        // Without copies: a plan may have many NodeClaims.
        PlannedNodeKind::Claim { claim, .. } => {
            claim_meets(claim, &spec.node_selector)
                && (spec.node_affinity.is_empty()
                    || spec.node_affinity.iter().any(|term| claim_meets(claim, term)))
        }
    }
}

/// Returns whether a node or NodeClaim meets the requirements.
fn meets_requirements(
    places: &PlannedCluster<'_>,
    place: &PlannedNode<'_>,
    requested: &Requirements,
) -> bool {
    match &place.kind {
        PlannedNodeKind::Node { node, .. } => {
            let labels = place.node_labels.get_or_init(|| {
                let mut labels = places.label_requirements(&node.labels);
                let hostname = node.labels.get(HOSTNAME).unwrap_or(&node.name);
                labels.add(Requirement::in_values(HOSTNAME, [hostname.as_str()]));
                labels
            });
            labels.compatible(requested, &BTreeSet::new()).is_ok()
        }
        PlannedNodeKind::Claim { claim, .. } => claim_meets(claim, requested),
    }
}

/// Returns whether a NodeClaim meets requirements with every value that it may still take.
///
/// The hostname of a node to come is not known; that it is not some other node's is.
fn claim_meets(claim: &PlannedNodeClaim, requested: &Requirements) -> bool {
    requested.iter().all(|requested| {
        claim.requirements.get(requested.key()).map_or_else(
            || requested.key() == HOSTNAME && requested.is_complement(),
            |own| is_within(own, requested),
        )
    })
}

/// Returns whether the second requirement allows every value of the first.
fn is_within(own: &Requirement, requested: &Requirement) -> bool {
    if !own.is_complement() {
        return own.values().iter().all(|value| requested.has(value));
    }
    own.intersection(requested).with_min_values(None) == own.clone().with_min_values(None)
}

/// Checks that no two pods of a node use the same host port.
///
/// See [`check_daemon_host_ports`] for the daemons of a NodeClaim. Daemons of existing nodes that
/// have not started yet are not checked, as the solver does not keep their ports free.
fn check_host_ports(place: &PlannedNode<'_>, found: &mut Vec<Violation>) {
    let has_ports = |pod: &&&Pod| !pod.spec.host_ports.is_empty();
    let placed: Vec<&&Pod> = place.placed.iter().filter(has_ports).collect();
    if placed.is_empty() {
        return;
    }
    let bound: Vec<&&Pod> = place.bound.iter().filter(has_ports).collect();
    let collide = |a: &PodSpec, b: &PodSpec| {
        a.host_ports.iter().any(|port| b.host_ports.iter().any(|other| port.conflicts_with(other)))
    };
    for (position, pod) in placed.iter().enumerate() {
        for other in placed.iter().skip(position + 1).chain(&bound) {
            if collide(&pod.spec, &other.spec) {
                found.push(Violation::HostPort {
                    pod: pod.full_name(),
                    other: other.full_name(),
                    target: place.target.clone(),
                });
            }
        }
    }
}

/// Checks that a node, or every instance type of a NodeClaim, can attach the volumes of its pods.
fn check_volume_limits(
    places: &PlannedCluster<'_>,
    place: &PlannedNode<'_>,
    found: &mut Vec<Violation>,
) {
    if place.placed.iter().all(|pod| pod.volume_claims.is_empty()) {
        return;
    }
    let attached = attached(places, place);
    let over: Vec<String> = match &place.kind {
        PlannedNodeKind::Node { node, .. } => {
            drivers_over_limit(&attached, |driver| volume_limit_of_node(places, node, driver))
        }
        PlannedNodeKind::Claim { claim, list, .. } => {
            let of_type = |own: &&Arc<InstanceType>| {
                drivers_over_limit(&attached, |driver| own.volume_limits.get(driver).copied())
            };
            types_of(claim, list).flat_map(|own| of_type(&own)).collect()
        }
    };
    for driver in over {
        found.push(Violation::VolumeLimit { target: place.target.clone(), driver });
    }
}

/// Returns the volumes that the pods of a node or NodeClaim attach.
fn attached(places: &PlannedCluster<'_>, place: &PlannedNode<'_>) -> Attachments {
    let mut all = Attachments::new();
    for pod in place.bound.iter().chain(&place.placed) {
        for (driver, claims) in places.request.snapshot.volumes.attachments(pod).unwrap_or_default()
        {
            all.entry(driver).or_default().extend(claims);
        }
    }
    all
}

fn drivers_over_limit(attached: &Attachments, limit: impl Fn(&str) -> Option<u32>) -> Vec<String> {
    let over = attached.iter().filter(|(driver, claims)| {
        limit(driver).is_some_and(|limit| claims.len() > limit as usize)
    });
    over.map(|(driver, _)| driver.clone()).collect()
}

/// Returns the volume limit that the node published, or of its instance type.
fn volume_limit_of_node(
    places: &PlannedCluster<'_>,
    node: &StateNode,
    driver: &str,
) -> Option<u32> {
    if let Some(published) = node.published_volume_limits.get(driver) {
        return *published;
    }
    let list = places.request.catalog.pools.get(node.pool.as_ref()?)?;
    let name = node.labels.get(crate::labels::INSTANCE_TYPE)?;
    list.iter().find(|own| own.name == *name)?.volume_limits.get(driver).copied()
}

/// Returns what daemons of a node request that have not started on it yet.
fn missing_daemons(
    places: &PlannedCluster<'_>,
    place: &PlannedNode<'_>,
    node: &StateNode,
) -> Resources {
    let labels = places.label_requirements(&node.labels);
    let daemons = matching_daemons(places, &node.taints, |requested| {
        labels.compatible(requested, &BTreeSet::new()).is_ok()
    });
    let came =
        sum(place.bound.iter().filter(|pod| pod.owner == OwnerKind::DaemonSet).map(|p| &*p.spec));
    let to_come = sum(daemons.iter().map(|daemon| &*daemon.spec)).subtract(&came);
    to_come.iter().filter(|&(_, amount)| amount > Quantity::ZERO).collect()
}

/// Checks that a NodeClaim can be launched, with room for the daemons of its instance types.
fn check_launch(places: &PlannedCluster<'_>, place: &PlannedNode<'_>, found: &mut Vec<Violation>) {
    let PlannedNodeKind::Claim { claim, pool, position, list } = &place.kind else { return };
    let (position, requirements) = (*position, &*claim.requirements);
    let offered = types_of(claim, list).map(|own| &*own.requirements);
    if places.request.options.min_values == MinValuesPolicy::Strict
        && min_values::required_type_count(requirements, offered).is_err()
    {
        found.push(Violation::MinValues { claim: position });
    }
    let pods = sum(place.placed.iter().map(|pod| &*pod.spec));
    let mut can_launch = false;
    for own in types_of(claim, list) {
        let daemons = daemons_of_type(places, pool, requirements, own);
        let need = pods.merge(&sum(daemons.iter().map(|daemon| &*daemon.spec)));
        let (is_launchable, fits) = is_launchable_and_fits(places, own, requirements, &need);
        // Reservations are held for an instance type, not for one of its ways to be bought.
        let fits = fits || (!claim.reservations.is_empty() && fits_any_offering(own, &need));
        can_launch |= is_launchable;
        let instance_type = own.name.clone();
        if is_launchable && !fits {
            found.push(Violation::TypeTooSmall { claim: position, instance_type });
        } else if !is_launchable && claim.reservations.is_empty() {
            found.push(Violation::TypeUnsuitable { claim: position, instance_type });
        }
        check_daemon_host_ports(place, &daemons, found);
    }
    // A NodeClaim that holds reservations lists the types that it could have had without them.
    if !can_launch && !claim.reservations.is_empty() {
        let instance_type =
            types_of(claim, list).next().map_or_else(String::new, |own| own.name.clone());
        found.push(Violation::TypeUnsuitable { claim: position, instance_type });
    }
}

/// Returns whether the type can be launched, and whether it is large enough.
///
/// Both consider only the offerings that are compatible with the requirements.
fn is_launchable_and_fits(
    places: &PlannedCluster<'_>,
    own: &InstanceType,
    requirements: &Requirements,
    need: &Resources,
) -> (bool, bool) {
    if own.requirements.intersects(requirements).is_err() {
        return (false, false);
    }
    let well_known = &places.request.catalog.well_known;
    let groups = own.allocatable_groups().into_iter().filter(|group| {
        group.offerings.iter().any(|&offering| {
            requirements.compatible(&own.offerings[offering].requirements, well_known).is_ok()
        })
    });
    let groups: Vec<_> = groups.collect();
    (!groups.is_empty(), groups.iter().any(|group| need.fits_in(&group.allocatable)))
}

fn fits_any_offering(own: &InstanceType, need: &Resources) -> bool {
    own.allocatable_groups().iter().any(|group| need.fits_in(&group.allocatable))
}

fn check_daemon_host_ports(
    place: &PlannedNode<'_>,
    daemons: &[&Daemon],
    found: &mut Vec<Violation>,
) {
    for (pod, daemon) in place.placed.iter().flat_map(|pod| daemons.iter().map(move |d| (pod, d))) {
        let mut ports = pod.spec.host_ports.iter();
        if ports.any(|port| daemon.spec.host_ports.iter().any(|other| port.conflicts_with(other))) {
            found.push(Violation::HostPort {
                pod: pod.full_name(),
                other: format!("{}/{}", daemon.namespace, daemon.name),
                target: place.target.clone(),
            });
        }
    }
}

/// The daemons that a new node of a type gets. Those that the pool cannot have are left out even if
/// a pod's requirements made their label known.
fn daemons_of_type<'a>(
    places: &PlannedCluster<'a>,
    pool: &Pool,
    requirements: &Requirements,
    own: &InstanceType,
) -> Vec<&'a Daemon> {
    let well_known = &places.request.catalog.well_known;
    let class = &pool.node_class;
    let class_label = format!("{}/{}", class.group, class.kind.to_lowercase());
    let mut template = pool.requirements.clone();
    template.extend(places.label_requirements(&pool.labels).iter().cloned());
    template.extend([
        Requirement::in_values(crate::labels::NODE_POOL, [pool.name.as_str()]),
        Requirement::in_values(&class_label, [class.name.as_str()]),
        Requirement::in_values(crate::labels::REGISTERED, ["true"]),
        Requirement::in_values(crate::labels::INITIALIZED, ["true"]),
    ]);
    matching_daemons(places, &pool.taints, |requested| {
        template.compatible(requested, well_known).is_ok()
            && requirements.compatible(requested, well_known).is_ok()
            && own.requirements.intersects(requested).is_ok()
    })
}

/// Returns the daemons that tolerate the taints and have a term that suits.
fn matching_daemons<'a>(
    places: &PlannedCluster<'a>,
    taints: &[crate::taint::Taint],
    suits: impl Fn(&Requirements) -> bool,
) -> Vec<&'a Daemon> {
    let is_ignored = |spec: &PodSpec| {
        spec.requests_dynamic_resources && places.request.options.ignore_dynamic_resources
    };
    let daemons = places.request.snapshot.daemons.iter();
    daemons
        .filter(|daemon| !is_ignored(&daemon.spec))
        .filter(|daemon| first_untolerated_taint(taints, &daemon.spec.tolerations).is_none())
        .filter(|daemon| node_affinity_alternatives(&daemon.spec).iter().any(&suits))
        .collect()
}

fn sum<'s>(specs: impl Iterator<Item = &'s PodSpec>) -> Resources {
    specs.fold(Resources::default(), |sum, spec| sum.merge(&spec.requests))
}
