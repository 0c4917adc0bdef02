//! Evaluates which nodes the volume claims, volumes and storage classes of a pod allow.
//!
//! Left out: CSIStorageCapacity, VolumeAttachments of pods that are gone, and volumes that are
//! written into a pod without a claim.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_cluster::ingest::conversion;
use karpenter_core::resources::Quantity;
use karpenter_core::selector::{Labels, Selector};

use super::pod_info::{NodeTerm, PodInfo, VolumeClaimRef, any_holds, terms};
use karpenter_operator::watch::ObjectKey;

/// Annotation of a claim that is bound for good.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of a claim whose volume is to be made for a node.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner of classes whose volumes are created manually.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Labels of volumes that bind them to a zone or region, and what the old ones are called now.
const TOPOLOGY_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// A PersistentVolumeClaim, as far as scheduling needs it.
#[derive(Clone, Debug, PartialEq)]
struct VolumeClaim {
    volume_name: String,
    class: String,
    is_bind_completed: bool,
    is_lost: bool,
    is_deleting: bool,
    selected_node: Option<String>,
    access_modes: BTreeSet<String>,
    mode: String,
    selector: Option<Selector>,
    request: Quantity,
    /// The uids of its owners.
    owners: Vec<String>,
}

impl VolumeClaim {
    fn read(wire: &PersistentVolumeClaim) -> Self {
        let none = PersistentVolumeClaimSpec::default();
        let spec = wire.spec.as_ref().unwrap_or(&none);
        let annotation = |name: &str| wire.metadata.annotations.as_ref()?.get(name).cloned();
        let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let owners = wire.metadata.owner_references.iter().flatten();
        Self {
            volume_name: spec.volume_name.clone().unwrap_or_default(),
            class: annotation(BETA_CLASS).or(spec.storage_class_name.clone()).unwrap_or_default(),
            is_bind_completed: annotation(BIND_COMPLETED).is_some(),
            is_lost: wire.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Lost")),
            is_deleting: wire.metadata.deletion_timestamp.is_some(),
            selected_node: annotation(SELECTED_NODE),
            access_modes: spec.access_modes.iter().flatten().cloned().collect(),
            mode: mode(spec.volume_mode.as_ref()),
            selector: spec.selector.as_ref().map(|selector| conversion::selector(Some(selector))),
            request: storage(requests),
            owners: owners.map(|owner| owner.uid.clone()).collect(),
        }
    }

    fn is_bound(&self) -> bool {
        !self.volume_name.is_empty() && self.is_bind_completed
    }
}

/// A PersistentVolume.
#[derive(Clone, Debug, PartialEq)]
struct Volume {
    /// Required node affinity; none for any node.
    terms: Option<Vec<NodeTerm>>,
    labels: Labels,
    /// The values that a node must have for a label, by its current name and its name here.
    zones: Vec<(&'static str, &'static str, BTreeSet<String>)>,
    /// Driver and handle of a CSI volume.
    handle: Option<(String, String)>,
    class: String,
    capacity: Quantity,
    access_modes: BTreeSet<String>,
    mode: String,
    /// Whether it may be bound: it has no claim, and was not used before.
    is_free: bool,
}

impl Volume {
    fn read(wire: &PersistentVolume) -> Self {
        let none = PersistentVolumeSpec::default();
        let spec = wire.spec.as_ref().unwrap_or(&none);
        let labels = wire.metadata.labels.clone().unwrap_or_default();
        let affinity = spec.node_affinity.as_ref().and_then(|node| node.required.as_ref());
        let zones = TOPOLOGY_LABELS.iter().filter_map(|(name, current)| {
            let values = labels.get(*name)?.split("__").map(|zone| zone.trim().to_owned());
            Some((*name, *current, values.filter(|zone| !zone.is_empty()).collect()))
        });
        let phase = wire.status.as_ref().and_then(|status| status.phase.as_deref());
        let csi = spec.csi.as_ref();
        Self {
            terms: affinity.map(terms),
            zones: zones.collect(),
            labels,
            handle: csi.map(|csi| (csi.driver.clone(), csi.volume_handle.clone())),
            class: spec.storage_class_name.clone().unwrap_or_default(),
            capacity: storage(spec.capacity.as_ref()),
            access_modes: spec.access_modes.iter().flatten().cloned().collect(),
            mode: mode(spec.volume_mode.as_ref()),
            is_free: spec.claim_ref.is_none()
                && wire.metadata.deletion_timestamp.is_none()
                && matches!(phase, None | Some("" | "Pending" | "Available")),
        }
    }

    fn suits(&self, claim: &VolumeClaim) -> bool {
        self.is_free
            && self.class == claim.class
            && self.capacity >= claim.request
            && self.mode == claim.mode
            && claim.access_modes.is_subset(&self.access_modes)
            && claim.selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
    }

    fn reaches(&self, name: &str, labels: &Labels) -> bool {
        self.terms.as_ref().is_none_or(|terms| any_holds(terms, name, labels))
    }
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq)]
struct Class {
    provisioner: String,
    /// Whether claims are bound only when their first pod is scheduled.
    waits_for_first_consumer: bool,
    /// The node labels where volumes can be provisioned: one of these terms.
    /// Empty: anywhere.
    allowed_topologies: Vec<Vec<(String, BTreeSet<String>)>>,
}

impl Class {
    fn read(wire: &StorageClass) -> Self {
        let allowed = wire.allowed_topologies.iter().flatten().map(|term| {
            let parts = term.match_label_expressions.iter().flatten();
            parts.map(|part| (part.key.clone(), part.values.iter().cloned().collect())).collect()
        });
        Self {
            provisioner: wire.provisioner.clone(),
            waits_for_first_consumer: wire.volume_binding_mode.as_deref()
                == Some("WaitForFirstConsumer"),
            allowed_topologies: allowed.collect(),
        }
    }

    fn can_provision_on(&self, labels: &Labels) -> bool {
        let holds = |(key, values): &(String, BTreeSet<String>)| {
            labels.get(key).is_some_and(|value| values.contains(value))
        };
        !matches!(self.provisioner.as_str(), "" | NO_PROVISIONER)
            && (self.allowed_topologies.is_empty()
                || self.allowed_topologies.iter().any(|term| term.iter().all(holds)))
    }
}

fn mode(wire: Option<&String>) -> String {
    wire.map_or("Filesystem", String::as_str).to_owned()
}

fn storage(
    list: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
) -> Quantity {
    conversion::resources(list).amount("storage")
}

/// Everything that is stored, by name.
#[derive(Debug, Default)]
pub(super) struct Storage {
    claims: BTreeMap<ObjectKey, VolumeClaim>,
    volumes: BTreeMap<String, Volume>,
    /// Volumes that may be bound, by class.
    free: BTreeMap<String, BTreeSet<String>>,
    classes: BTreeMap<String, Class>,
    /// How many volumes of a driver a node can attach.
    limits: BTreeMap<String, BTreeMap<String, i64>>,
}

impl Storage {
    /// Whether anything has changed that scheduling reads.
    pub(super) fn set_claim(
        &mut self,
        key: &ObjectKey,
        wire: Option<&PersistentVolumeClaim>,
    ) -> bool {
        replace(&mut self.claims, key, wire.map(VolumeClaim::read))
    }

    pub(super) fn set_volume(&mut self, name: &String, wire: Option<&PersistentVolume>) -> bool {
        if let Some(old) = self.volumes.get(name)
            && let Some(names) = self.free.get_mut(&old.class)
        {
            names.remove(name);
            if names.is_empty() {
                self.free.remove(&old.class);
            }
        }
        let volume = wire.map(Volume::read);
        if let Some(volume) = volume.as_ref().filter(|volume| volume.is_free) {
            self.free.entry(volume.class.clone()).or_default().insert(name.clone());
        }
        replace(&mut self.volumes, name, volume)
    }

    pub(super) fn set_class(&mut self, name: &String, wire: Option<&StorageClass>) -> bool {
        replace(&mut self.classes, name, wire.map(Class::read))
    }

    pub(super) fn set_limits(&mut self, name: &String, wire: Option<&CSINode>) -> bool {
        let limits = wire.map(|wire| {
            let drivers = wire.spec.drivers.iter().filter_map(|driver| {
                let count = driver.allocatable.as_ref()?.count?;
                Some((driver.name.clone(), i64::from(count)))
            });
            drivers.collect()
        });
        replace(&mut self.limits, name, limits)
    }

    /// Returns the volumes that a pod needs, or why no node can have it.
    pub(super) fn pod_volumes(&self, pod: &PodInfo) -> Result<PodVolumes<'_>, String> {
        let mut volumes = PodVolumes::default();
        let key = |claim: &VolumeClaimRef| ObjectKey::new(&pod.key.namespace, &claim.name);
        // The filter for ReadWriteOncePod comes first, and it fails if a claim is missing.
        for claim in pod.claims.iter().filter(|claim| !claim.is_ephemeral) {
            if !self.claims.contains_key(&key(claim)) {
                return Err(format!("persistentvolumeclaim {:?} not found", claim.name));
            }
        }
        let mut unbound_immediate = false;
        for wanted in &pod.claims {
            let claim = self.claims.get(&key(wanted)).ok_or_else(|| {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \
                     {:?}",
                    wanted.name
                )
            })?;
            if claim.is_lost {
                return Err(format!(
                    "persistentvolumeclaim {:?} bound to non-existent persistentvolume {:?}",
                    wanted.name, claim.volume_name
                ));
            }
            if claim.is_deleting {
                return Err(format!("persistentvolumeclaim {:?} is being deleted", wanted.name));
            }
            if wanted.is_ephemeral && !claim.owners.contains(&pod.uid) {
                return Err(format!(
                    "PVC {} was not created for pod {} (pod is not owner)",
                    key(wanted),
                    pod.key
                ));
            }
            volumes.attached.extend(self.handle(&key(wanted), claim));
            let class = self.classes.get(&claim.class);
            match class {
                _ if claim.is_bound() => match self.volumes.get(&claim.volume_name) {
                    Some(volume) => volumes.bound.push(volume),
                    None if wanted.is_ephemeral => volumes.is_volume_missing = true,
                    None => volumes.missing = Some(claim.volume_name.as_str()),
                },
                Some(class) if class.waits_for_first_consumer && claim.volume_name.is_empty() => {
                    volumes.unbound.push((key(wanted), claim, class));
                }
                _ => unbound_immediate = true,
            }
        }
        if unbound_immediate {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        if let Some(name) = volumes.missing {
            return Err(format!("persistentvolume {name:?} not found"));
        }
        // The smallest claim takes the smallest volume.
        volumes.unbound.sort_by(|a, b| (a.1.request, &a.0).cmp(&(b.1.request, &b.0)));
        Ok(volumes)
    }

    /// Whether only one pod at a time may use the claim.
    pub(super) fn is_for_one_pod(&self, key: &ObjectKey) -> bool {
        let claim = self.claims.get(key);
        claim.is_some_and(|claim| claim.access_modes.contains("ReadWriteOncePod"))
    }

    /// Driver and handle of the volume of a claim, made up while it has none.
    fn handle(&self, key: &ObjectKey, claim: &VolumeClaim) -> Option<(String, String)> {
        match claim.volume_name.as_str() {
            "" => {
                let class = self.classes.get(&claim.class)?;
                (class.provisioner != NO_PROVISIONER)
                    .then(|| (class.provisioner.clone(), format!("claim {key}")))
            }
            name => self.volumes.get(name)?.handle.clone(),
        }
    }

    pub(super) fn limits(&self, node: &str) -> Option<&BTreeMap<String, i64>> {
        self.limits.get(node).filter(|limits| !limits.is_empty())
    }

    /// What the claims of a bound pod attach to its node.
    pub(super) fn attached(
        &self,
        namespace: &str,
        claims: &[VolumeClaimRef],
    ) -> impl Iterator<Item = (String, String)> {
        claims.iter().filter_map(move |claim| {
            let key = ObjectKey::new(namespace, &claim.name);
            self.handle(&key, self.claims.get(&key)?)
        })
    }

    /// What to do with the waiting claims of a pod on a node; none if that cannot be done.
    pub(super) fn steps(
        &self,
        volumes: &PodVolumes<'_>,
        node: &str,
        labels: &Labels,
    ) -> Option<Vec<VolumeClaimStep>> {
        let mut taken = BTreeSet::new();
        let mut steps = Vec::with_capacity(volumes.unbound.len());
        for (key, claim, class) in &volumes.unbound {
            if claim.selected_node.as_ref().is_some_and(|selected| selected != node) {
                return None;
            }
            let free = self.free.get(&claim.class).into_iter().flatten();
            let free = free.filter_map(|name| Some((name, self.volumes.get(name)?)));
            let found = free
                .filter(|(name, volume)| {
                    claim.selected_node.is_none()
                        && !taken.contains(*name)
                        && volume.suits(claim)
                        && volume.reaches(node, labels)
                })
                .min_by_key(|(name, volume)| (volume.capacity, *name));
            if let Some((name, _)) = found {
                taken.insert(name);
                steps.push(VolumeClaimStep::Bind { claim: key.clone(), volume: name.clone() });
            } else if class.can_provision_on(labels) {
                steps.push(VolumeClaimStep::Provision { claim: key.clone() });
            } else {
                return None;
            }
        }
        Some(steps)
    }
}

fn replace<K: Ord + Clone, V: PartialEq>(
    map: &mut BTreeMap<K, V>,
    key: &K,
    value: Option<V>,
) -> bool {
    match value {
        None => map.remove(key).is_some(),
        Some(value) if map.get(key) == Some(&value) => false,
        Some(value) => {
            map.insert(key.clone(), value);
            true
        }
    }
}

/// A step that prepares a claim before its pod is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeClaimStep {
    /// Bind it to a volume that is there.
    Bind {
        /// The claim.
        claim: ObjectKey,
        /// The PersistentVolume.
        volume: String,
    },
    /// Have a volume made where the node is.
    Provision {
        /// The claim.
        claim: ObjectKey,
    },
}

/// The claims of a pod that is to be placed.
#[derive(Debug, Default)]
pub(super) struct PodVolumes<'a> {
    bound: Vec<&'a Volume>,
    unbound: Vec<(ObjectKey, &'a VolumeClaim, &'a Class)>,
    missing: Option<&'a str>,
    is_volume_missing: bool,
    /// Driver and handle of the attached volumes.
    pub(super) attached: BTreeSet<(String, String)>,
}

impl PodVolumes<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.unbound.is_empty() && !self.is_volume_missing
    }

    /// Whether the bound volumes can be reached from the node.
    pub(super) fn reach(&self, node: &str, labels: &Labels) -> bool {
        self.bound.iter().all(|volume| volume.reaches(node, labels))
    }

    /// Whether a claim names a volume that is gone.
    pub(super) fn is_volume_missing(&self) -> bool {
        self.is_volume_missing
    }

    /// Whether the zone labels of the bound volumes are those of the node.
    pub(super) fn are_in_zone(&self, labels: &Labels) -> bool {
        let mut zones = self.bound.iter().flat_map(|volume| &volume.zones);
        !TOPOLOGY_LABELS.iter().any(|(name, _)| labels.contains_key(*name))
            || zones.all(|(name, current, values)| {
                let value = labels.get(*name).or_else(|| labels.get(*current));
                value.is_some_and(|value| values.contains(value))
            })
    }
}
