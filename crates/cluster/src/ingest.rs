//! Kubernetes objects to core values.
//!
//! [`snapshot`] is the entry: all [`Objects`] of a cluster in, a [`Snapshot`] out. It is total: of an
//! object with unreadable parts it keeps the rest, and adds an [`IngestDiagnostic`] with the reason;
//! a pod also carries it as its problem. No text of a user makes it panic.
//!
//! Invariant: every pod that goes in comes out, in the snapshot or as a diagnostic.
//!
//! [`Mirror`](crate::mirror::Mirror) reads with the same functions, one object at a time.
//!
//! One file per kind; each works on what it is given and knows no other kind, except that nodes
//! are read before pods (bindings) and pods before daemons (the newest pod of a DaemonSet).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::validation::ProviderRules;
use karpenter_core::copy_on_write::CopyOnWrite;
use karpenter_core::overlay::NamedOverlay;
use karpenter_core::pod::Pod;
use karpenter_core::requirement::Aliases;
use karpenter_core::selector::Labels;
use karpenter_core::snapshot::Snapshot;

pub(crate) mod buffer;
pub mod constraint_limits;
pub mod conversion;
pub(crate) mod daemon;
pub(crate) mod disruption_budget;
pub(crate) mod dynamic_resources;
mod ineffective_protection;
mod interner;
pub(crate) mod node;
mod objects;
mod over_bound;
mod overlay;
pub(crate) mod parsed_pods;
pub(crate) mod pod;
mod pod_spec;
pub(crate) mod pool;
mod quantity;
mod requests;
mod requirement;
mod selector;
mod taint;
#[cfg(test)]
pub(crate) mod test_settings;
#[cfg(test)]
mod tests;
pub(crate) mod volume;
pub(crate) mod workload;

pub use buffer::buffer_replicas;
pub use objects::Objects;
pub use overlay::node_overlay;
pub use pod::{CostAnnotationError, cost_annotation_error};
pub use pool::budgets_problem;

/// What the reader of objects has to know beside them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The provider's rules for labels and resources.
    pub rules: ProviderRules,
    /// Group and kind of the NodeClasses that the provider serves. NodePools and NodeClaims of
    /// other NodeClasses belong to another installation.
    pub node_classes: BTreeSet<(String, String)>,
    /// Alpha features.
    pub gates: Gates,
    /// Whether a NodePool without conditions counts as ready, because no controller may be running
    /// that sets them. Such NodePools are validated here.
    pub assume_pools_ready: bool,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// Feature gates that change what is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// `NodeOverlay`.
    pub node_overlay: bool,
    /// `CapacityBuffer`.
    pub capacity_buffer: bool,
    /// `PodDeletionCostManagement`: Karpenter writes deletion costs itself, so they are ignored
    /// here.
    pub pod_deletion_cost_management: bool,
}

impl Settings {
    /// Returns settings without alpha features, in which conditions decide whether pools are ready.
    /// Node classes are pairs of group and kind.
    pub fn new<'a>(
        rules: ProviderRules,
        node_classes: impl IntoIterator<Item = (&'a str, &'a str)>,
        now: Timestamp,
    ) -> Self {
        let node_classes = node_classes.into_iter();
        Self {
            rules,
            node_classes: node_classes
                .map(|(group, kind)| (group.to_owned(), kind.to_owned()))
                .collect(),
            gates: Gates::default(),
            assume_pools_ready: false,
            now,
        }
    }

    /// Other spellings of labels, as the algebra wants them.
    pub fn aliases(&self) -> Aliases {
        let aliases = self.rules.aliases();
        aliases.fold(Aliases::default(), |aliases, (old, key)| aliases.with_key(old, key))
    }

    fn serves(&self, class: &NodeClassRef) -> bool {
        // A set of one or two entries: no key is built for the lookup.
        self.node_classes.iter().any(|(group, kind)| *group == class.group && *kind == class.kind)
    }
}

/// The result of reading API objects: the snapshot and the diagnostics.
#[derive(Clone, Debug, Default)]
pub struct IngestResult {
    /// The cluster.
    pub snapshot: Snapshot,
    /// NodeOverlays, for the evaluation of the catalog; none without the gate.
    pub overlays: Vec<NamedOverlay>,
    /// Objects that were excluded or read in part, in the order of reading.
    pub diagnostics: Vec<IngestDiagnostic>,
}

/// An API object with the reason why it was excluded, rejected or reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestDiagnostic {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether the object is excluded from the snapshot.
    pub is_excluded: bool,
    /// Whether the user has to fix the object. Objects of other installations and objects that are
    /// not ready yet are valid.
    pub is_invalid: bool,
    /// Why the object is listed.
    pub reason: String,
}

/// Reads all objects.
pub fn snapshot(objects: &Objects, settings: &Settings) -> IngestResult {
    let aliases = settings.aliases();
    let mut reader = Reader::new(settings, &aliases, settings.now);
    let nodes = node::read(objects, &mut reader);
    let mut pods = pod::read(objects, &nodes.by_name, &mut reader);
    pods.extend(buffer::read(objects, &mut reader));
    let pods: Vec<_> = pods.into_iter().map(CopyOnWrite::from).collect();
    let daemons = daemon::read(objects, &mut reader);
    let snapshot = Snapshot {
        pools: pool::read(objects, &mut reader),
        managed_pools: pool::read_managed(objects, &reader).into(),
        nodes: nodes.nodes.into_iter().map(CopyOnWrite::from).collect(),
        namespaces: namespaces(objects, &pods).into(),
        pods,
        daemons,
        volumes: volume::read(objects, &mut reader).into(),
        disruption_budgets: disruption_budget::read(objects, &mut reader).into(),
        services: workload::services(objects).into(),
        workloads: workload::selectors(objects, &mut reader).into(),
        dynamic_resources: dynamic_resources::read(objects, &mut reader).into(),
    };
    let overlays = overlay::read(objects, &mut reader);
    IngestResult { snapshot, overlays, diagnostics: reader.diagnostics }
}

/// Labels of namespaces. One that only pods mention exists as well.
fn namespaces(objects: &Objects, pods: &[CopyOnWrite<Pod>]) -> BTreeMap<String, Labels> {
    let mut namespaces: BTreeMap<String, Labels> = BTreeMap::new();
    for namespace in &objects.namespaces {
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        namespaces.insert(namespace.metadata.name.clone().unwrap_or_default(), labels);
    }
    for pod in pods {
        if !namespaces.contains_key(&pod.namespace) {
            namespaces.insert(pod.namespace.clone(), Labels::new());
        }
    }
    namespaces
}

/// What every kind needs while it is read.
pub(crate) struct Reader<'a> {
    settings: &'a Settings,
    aliases: &'a Aliases,
    now: Timestamp,
    diagnostics: Vec<IngestDiagnostic>,
}

impl<'a> Reader<'a> {
    /// A reader that has read nothing. The aliases are those of the settings.
    pub(crate) fn new(settings: &'a Settings, aliases: &'a Aliases, now: Timestamp) -> Self {
        Self { settings, aliases, now, diagnostics: Vec::new() }
    }

    /// The time of reading.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether objects of this NodeClass are ours.
    pub(crate) fn serves(&self, class: &NodeClassRef) -> bool {
        self.settings.serves(class)
    }

    /// Which alpha features are on.
    pub(crate) fn gates(&self) -> Gates {
        self.settings.gates
    }

    /// Reports a valid object that is not in the snapshot.
    fn exclude(&mut self, kind: &'static str, meta: &ObjectMeta, reason: impl Into<String>) {
        self.push_diagnostic(kind, meta, (true, false), reason.into());
    }

    /// Reports an invalid object that is not in the snapshot.
    fn reject(&mut self, kind: &'static str, meta: &ObjectMeta, reason: impl Into<String>) {
        self.push_diagnostic(kind, meta, (true, true), reason.into());
    }

    /// Reports the unreadable parts of an object that is in the snapshot.
    fn report_problems(&mut self, kind: &'static str, meta: &ObjectMeta, problems: &[String]) {
        if !problems.is_empty() {
            self.push_diagnostic(kind, meta, (false, true), problems.join("; "));
        }
    }

    /// Reports a note about an object that is completely in the snapshot.
    fn report_note(&mut self, kind: &'static str, meta: &ObjectMeta, note: String) {
        self.push_diagnostic(kind, meta, (false, false), note);
    }

    fn push_diagnostic(
        &mut self,
        kind: &'static str,
        meta: &ObjectMeta,
        (is_left_out, is_broken): (bool, bool),
        reason: String,
    ) {
        self.diagnostics.push(IngestDiagnostic {
            kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            is_excluded: is_left_out,
            is_invalid: is_broken,
            reason,
        });
    }
}

/// An optional text; absent and empty are the same to Go.
pub(crate) fn text(text: Option<&String>) -> &str {
    text.map_or("", String::as_str)
}
