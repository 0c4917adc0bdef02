//! One place: taints, labels, resources, ports and volumes.

use std::collections::BTreeSet;

use super::place::{HOSTNAME, Kind, Place, Places, alternatives, keeping_off};
use super::violation::Violation;
use crate::catalog::InstanceType;
use crate::plan::PlannedClaim;
use crate::pod::{Owner, Pod, PodSpec};
use crate::requirement::{Requirement, Requirements};
use crate::resources::{Quantity, Resources};
use crate::scheduling::{MinValuesPolicy, min_values};
use crate::snapshot::{Daemon, Node, Pool};
use crate::volume::Attachments;

pub(super) fn check(places: &Places<'_>, place: &Place<'_>, found: &mut Vec<Violation>) {
    for pod in &place.placed {
        admission(places, place, pod, found);
    }
    ports(place, found);
    let attached = attached(places, place);
    match &place.kind {
        Kind::Node { node, is_active } => {
            if !is_active {
                found.push(Violation::NodeGone { node: node.name.clone() });
            }
            node_room(places, place, node, found);
            for driver in over_limit(&attached, |driver| node_limit(places, node, driver)) {
                found.push(Violation::VolumeLimit { target: place.target.clone(), driver });
            }
        }
        Kind::Claim { claim, pool, position, types } => {
            claim_room(places, place, (claim, *position), pool, types, found);
            for own in types {
                for driver in over_limit(&attached, |d| own.volume_limits.get(d).copied()) {
                    found.push(Violation::VolumeLimit { target: place.target.clone(), driver });
                }
            }
        }
    }
}

/// Taints, node affinity and where the volumes are.
fn admission(places: &Places<'_>, place: &Place<'_>, pod: &Pod, found: &mut Vec<Violation>) {
    let (name, target) = (|| pod.full_name(), || place.target.clone());
    if let Some(taint) = keeping_off(place.taints(), &pod.spec.tolerations) {
        found.push(Violation::Taint { pod: name(), target: target(), taint: taint.clone() });
    }
    if !alternatives(&pod.spec).iter().any(|asked| is_met(places, place, asked)) {
        found.push(Violation::NodeAffinity { pod: name(), target: target() });
    }
    let volumes = places.request.snapshot.volumes.alternatives(pod);
    let is_reachable = volumes.is_ok_and(|volumes| {
        volumes.is_empty() || volumes.iter().any(|asked| is_met(places, place, asked))
    });
    if !is_reachable {
        found.push(Violation::VolumeTopology { pod: name(), target: target() });
    }
}

/// Whether the labels are as asked, for a NodeClaim whatever comes of it.
fn is_met(places: &Places<'_>, place: &Place<'_>, asked: &Requirements) -> bool {
    match &place.kind {
        Kind::Node { node, .. } => {
            let mut labels = places.labels(&node.labels);
            let hostname = node.labels.get(HOSTNAME).unwrap_or(&node.name);
            labels.add(Requirement::in_values(HOSTNAME, [hostname.as_str()]));
            labels.compatible(asked, &BTreeSet::new()).is_ok()
        }
        // The hostname of a node to come is not known; that it is not some other node's is.
        Kind::Claim { claim, .. } => asked.iter().all(|asked| {
            claim.requirements.get(asked.key()).map_or_else(
                || asked.key() == HOSTNAME && asked.is_complement(),
                |own| {
                    let both = own.intersection(asked).with_min_values(None);
                    both == own.clone().with_min_values(None)
                },
            )
        }),
    }
}

/// No port twice: between the pods, and with the daemons of every type of a NodeClaim. Daemons of
/// existing nodes that have not come yet are not looked at, as nobody keeps their ports free.
fn ports(place: &Place<'_>, found: &mut Vec<Violation>) {
    let collide = |a: &PodSpec, b: &PodSpec| {
        a.host_ports.iter().any(|port| b.host_ports.iter().any(|other| port.collides(other)))
    };
    for (position, pod) in place.placed.iter().enumerate() {
        for other in place.placed.iter().skip(position + 1).chain(&place.bound) {
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

/// Everything that the pods of a place attach.
fn attached(places: &Places<'_>, place: &Place<'_>) -> Attachments {
    let mut all = Attachments::new();
    for pod in place.bound.iter().chain(&place.placed) {
        for (driver, claims) in places.request.snapshot.volumes.attachments(pod).unwrap_or_default()
        {
            all.entry(driver).or_default().extend(claims);
        }
    }
    all
}

fn over_limit(attached: &Attachments, limit: impl Fn(&str) -> Option<u32>) -> Vec<String> {
    let over = attached.iter().filter(|(driver, claims)| {
        limit(driver).is_some_and(|limit| claims.len() > limit as usize)
    });
    over.map(|(driver, _)| driver.clone()).collect()
}

/// Published by the node, or known of its instance type.
fn node_limit(places: &Places<'_>, node: &Node, driver: &str) -> Option<u32> {
    if let Some(published) = node.published_drivers.get(driver) {
        return *published;
    }
    let list = places.request.catalog.pools.get(node.pool.as_ref()?)?;
    let name = node.labels.get(crate::labels::INSTANCE_TYPE)?;
    list.iter().find(|own| own.name == *name)?.volume_limits.get(driver).copied()
}

/// Bound and new pods, and daemons that have not come yet, fit.
fn node_room(places: &Places<'_>, place: &Place<'_>, node: &Node, found: &mut Vec<Violation>) {
    let labels = places.labels(&node.labels);
    let daemons =
        daemons(places, &node.taints, |asked| labels.compatible(asked, &BTreeSet::new()).is_ok());
    let came =
        sum(place.bound.iter().filter(|pod| pod.owner == Owner::DaemonSet).map(|p| &*p.spec));
    let to_come = sum(daemons.iter().map(|daemon| &*daemon.spec)).subtract(&came);
    let new = sum(place.placed.iter().map(|pod| &*pod.spec));
    let mut used = sum(place.bound.iter().map(|pod| &*pod.spec)).merge(&new);
    for (resource, amount) in to_come.iter().filter(|&(_, amount)| amount > Quantity::ZERO) {
        used.set(resource, used.amount(resource).saturating_add(amount));
    }
    // Bound pods may hold what the node no longer lists; new ones may not ask for it.
    let listed = node.allocatable.iter().filter(|&(resource, has)| used.amount(resource) > has);
    let unlisted = new.iter().filter(|&(resource, amount)| {
        node.allocatable.get(resource).is_none() && amount > Quantity::ZERO
    });
    for (resource, _) in listed.chain(unlisted) {
        let resource = resource.to_owned();
        found.push(Violation::NodeTooSmall { node: node.name.clone(), resource });
    }
}

/// Every instance type that may be launched holds the pods and its daemons.
fn claim_room(
    places: &Places<'_>,
    place: &Place<'_>,
    (claim, position): (&PlannedClaim, usize),
    pool: &Pool,
    types: &[&std::sync::Arc<InstanceType>],
    found: &mut Vec<Violation>,
) {
    let pods = sum(place.placed.iter().map(|pod| &*pod.spec));
    for (resource, amount) in pods.iter() {
        if claim.requests.amount(resource) < amount {
            found.push(Violation::Requests { claim: position, resource: resource.to_owned() });
        }
    }
    if types.is_empty() || place.placed.is_empty() {
        found.push(Violation::EmptyClaim { claim: position });
    }
    let requirements = &claim.requirements;
    let offered = types.iter().map(|own| &own.requirements);
    if places.request.options.min_values == MinValuesPolicy::Strict
        && min_values::needed(requirements, offered).is_err()
    {
        found.push(Violation::MinValues { claim: position });
    }
    let mut can_launch = false;
    for own in types {
        let daemons = daemons_of_type(places, pool, requirements, own);
        let need = pods.merge(&sum(daemons.iter().map(|daemon| &*daemon.spec)));
        let (is_launchable, fits) = launch(places, own, requirements, &need);
        // Reservations are held for an instance type, not for one of its ways to be bought.
        let fits = fits || (!claim.reservations.is_empty() && fits_somehow(own, &need));
        can_launch |= is_launchable;
        let instance_type = own.name.clone();
        if is_launchable && !fits {
            found.push(Violation::TypeTooSmall { claim: position, instance_type });
        } else if !is_launchable && claim.reservations.is_empty() {
            found.push(Violation::TypeUnsuitable { claim: position, instance_type });
        }
        daemon_ports(place, &daemons, found);
    }
    // A NodeClaim that holds reservations lists the types that it could have had without them.
    if !can_launch && !claim.reservations.is_empty() {
        let instance_type = types.first().map_or_else(String::new, |own| own.name.clone());
        found.push(Violation::TypeUnsuitable { claim: position, instance_type });
    }
}

/// Whether the type can be bought with the requirements, and whether some such way is large enough.
fn launch(
    places: &Places<'_>,
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

fn fits_somehow(own: &InstanceType, need: &Resources) -> bool {
    own.allocatable_groups().iter().any(|group| need.fits_in(&group.allocatable))
}

fn daemon_ports(place: &Place<'_>, daemons: &[&Daemon], found: &mut Vec<Violation>) {
    for (pod, daemon) in place.placed.iter().flat_map(|pod| daemons.iter().map(move |d| (pod, d))) {
        let mut ports = pod.spec.host_ports.iter();
        if ports.any(|port| daemon.spec.host_ports.iter().any(|other| port.collides(other))) {
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
    places: &Places<'a>,
    pool: &Pool,
    requirements: &Requirements,
    own: &InstanceType,
) -> Vec<&'a Daemon> {
    let well_known = &places.request.catalog.well_known;
    let class = &pool.node_class;
    let class_label = format!("{}/{}", class.group, class.kind.to_lowercase());
    let mut template = pool.requirements.clone();
    template.extend(places.labels(&pool.labels).iter().cloned());
    template.extend([
        Requirement::in_values(crate::labels::NODE_POOL, [pool.name.as_str()]),
        Requirement::in_values(&class_label, [class.name.as_str()]),
        Requirement::in_values(crate::labels::REGISTERED, ["true"]),
        Requirement::in_values(crate::labels::INITIALIZED, ["true"]),
    ]);
    daemons(places, &pool.taints, |asked| {
        template.compatible(asked, well_known).is_ok()
            && requirements.compatible(asked, well_known).is_ok()
            && own.requirements.intersects(asked).is_ok()
    })
}

/// The daemons that tolerate the taints and have a term that suits.
fn daemons<'a>(
    places: &Places<'a>,
    taints: &[crate::taint::Taint],
    suits: impl Fn(&Requirements) -> bool,
) -> Vec<&'a Daemon> {
    let is_ignored = |spec: &PodSpec| {
        spec.asks_dynamic_resources && places.request.options.ignore_dynamic_resources
    };
    let daemons = places.request.snapshot.daemons.iter();
    daemons
        .filter(|daemon| !is_ignored(&daemon.spec))
        .filter(|daemon| keeping_off(taints, &daemon.spec.tolerations).is_none())
        .filter(|daemon| alternatives(&daemon.spec).iter().any(&suits))
        .collect()
}

fn sum<'s>(specs: impl Iterator<Item = &'s PodSpec>) -> Resources {
    specs.fold(Resources::default(), |sum, spec| sum.merge(&spec.requests))
}
