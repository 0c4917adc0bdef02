//! Converts manifests of former releases to v1, offline (spec 10 §16).
//!
//! [`convert`] is a pure function from objects to objects. Each kind has a file: [`provisioner`]
//! and [`node_template`] for v1alpha5, [`nodepool`] and [`nodeclass`] for v1beta1, [`workloads`]
//! for everything that creates Pods. Findings are values of [`notes`]. Kubelet settings move from
//! pools to classes in [`kubelet_migration`]. At the end [`validate`] rejects each object that v1
//! would reject; it is not written.

mod class_fields;
mod draft;
mod fields;
mod kubelet;
mod kubelet_migration;
mod metadata;
mod node_template;
mod nodeclass;
mod nodepool;
mod notes;
mod provisioner;
mod selectors;
mod template;
mod validate;
mod workloads;

use karpenter_api::labels::{self, aws};
use serde_json::{Map, Value, json};

use draft::{Draft, DraftKind};
use fields::Section;
pub(crate) use notes::Finding;
use notes::{Note, Notes, Subject};

use crate::manifest::FieldPath;

const NODE_POOL: &str = "NodePool";
const EC2_NODE_CLASS: &str = "EC2NodeClass";

/// What the operator can choose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Do not add the requirements that the webhook of v1alpha5 added.
    pub(crate) ignore_defaults: bool,
    /// Node role for classes made from v1alpha1, in place of the profile or placeholder.
    pub(crate) role: Option<String>,
    /// Keep nodes of classes made from v1alpha1 without public addresses.
    pub(crate) private_subnets: bool,
    /// Rename keys in Pods and Pod templates too.
    pub(crate) workloads: bool,
}

/// What became of the input, object by object.
#[derive(Debug)]
pub(crate) struct Conversion {
    /// One for each input object, in order.
    pub(crate) results: Vec<ConversionResult>,
    /// Pairs of inputs that must be written together: settings moved between them.
    pub(crate) linked_inputs: Vec<PoolClassLink>,
    /// Pools whose kubelet settings move to a class and must not get lost.
    pub(crate) inputs_with_kubelet: Vec<usize>,
}

/// The indexes of a pool and of the class that got its kubelet settings.
pub(crate) type PoolClassLink = (usize, usize);

/// The result of the conversion of one input object.
#[derive(Debug)]
pub(crate) struct ConversionResult {
    pub(crate) status: ConversionStatus,
    pub(crate) outputs: Vec<Output>,
    /// Findings that belong to no output.
    pub(crate) findings: Vec<Finding>,
}

/// An object of v1, or a workload, with its findings.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) object: Value,
    pub(crate) notes: Vec<Finding>,
}

/// The status of an input object after the conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConversionStatus {
    /// Other objects replace it.
    Changed,
    /// The output equals the input.
    Unchanged,
    /// Not a kind that is converted.
    Skipped,
    /// A Karpenter kind that the controller creates again.
    Dropped,
    /// Not written, because of an error.
    Failed,
}

impl ConversionStatus {
    /// Returns whether the output differs from the input object.
    pub(crate) fn is_changed(self) -> bool {
        matches!(self, Self::Changed | Self::Dropped)
    }
}

/// Converts every object that it knows.
pub(crate) fn convert(objects: &[&Value], options: &Options) -> Conversion {
    let mut drafts = Vec::new();
    let mut results = Vec::new();
    for (input, object) in objects.iter().enumerate() {
        let mut notes = Notes::for_object(subject_of(object));
        let kind = InputKind::of_object(object, options);
        let fate = match &kind {
            InputKind::Other { kind } => {
                notes.add(&FieldPath::default(), Note::Skipped { kind: kind.clone() });
                ConversionStatus::Skipped
            }
            InputKind::Recreated { kind } => {
                notes.add(&FieldPath::default(), Note::Recreated { kind: kind.clone() });
                // What v1 takes as it is stays where it is kept.
                let is_v1 = object["apiVersion"] == "karpenter.sh/v1";
                if is_v1 { ConversionStatus::Skipped } else { ConversionStatus::Dropped }
            }
            kind => {
                let parts = draft_objects(kind, object, options, notes.empty_for_same_object());
                drafts.extend(parts.into_iter().map(|(part, object, notes)| Draft {
                    input,
                    kind: part,
                    object,
                    notes,
                }));
                ConversionStatus::Unchanged
            }
        };
        results.push(ConversionResult {
            status: fate,
            outputs: Vec::new(),
            findings: notes.findings,
        });
    }
    draft::resolve_name_conflicts(&mut drafts);
    validate::validate_kubelet_settings(&mut drafts);
    let movers = drafts.iter().filter(|draft| draft.kubelet().is_some());
    let movers = movers.map(|draft| draft.input).collect();
    let links = kubelet_migration::move_kubelet_settings(&mut drafts);
    validate::validate_drafts(&mut drafts);
    assign_drafts_to_results(objects, drafts, &mut results);
    Conversion { results, linked_inputs: links, inputs_with_kubelet: movers }
}

/// Assigns the drafts to the results of their inputs.
fn assign_drafts_to_results(
    objects: &[&Value],
    drafts: Vec<Draft>,
    results: &mut [ConversionResult],
) {
    let failed = draft::failed_inputs(&drafts);
    for Draft { input, object, notes, .. } in drafts {
        let result = &mut results[input];
        if failed.contains(&input) {
            result.status = ConversionStatus::Failed;
            result.findings.extend(notes.findings);
        } else {
            if object != *objects[input] {
                result.status = ConversionStatus::Changed;
            }
            result.outputs.push(Output { object, notes: notes.findings });
        }
    }
}

/// The kinds of input objects, by their conversion.
enum InputKind {
    Provisioner,
    NodeTemplate,
    BetaNodePool,
    BetaNodeClass,
    NodePool,
    NodeClass,
    /// A kind that creates Pods, with the path of its Pod template.
    Workload(&'static [&'static str]),
    Recreated {
        kind: String,
    },
    Other {
        kind: String,
    },
}

impl InputKind {
    fn of_object(object: &Value, options: &Options) -> Self {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        match (group, version, kind) {
            (labels::GROUP, "v1alpha5", "Provisioner") => Self::Provisioner,
            (aws::GROUP, "v1alpha1", "AWSNodeTemplate") => Self::NodeTemplate,
            (labels::GROUP, "v1beta1", NODE_POOL) => Self::BetaNodePool,
            (aws::GROUP, "v1beta1", EC2_NODE_CLASS) => Self::BetaNodeClass,
            (labels::GROUP, "v1", NODE_POOL) => Self::NodePool,
            (aws::GROUP, "v1", EC2_NODE_CLASS) => Self::NodeClass,
            (labels::GROUP, _, "Machine" | "NodeClaim") => Self::Recreated { kind: kind.into() },
            // Of our groups, but nothing to convert: the version may be the odd part.
            (labels::GROUP | aws::GROUP, ..) => {
                Self::Other { kind: format!("{kind} of {api_version}") }
            }
            _ => match workloads::template_path(group, kind).filter(|_| options.workloads) {
                Some(template) => Self::Workload(template),
                None => Self::Other { kind: kind.into() },
            },
        }
    }
}

/// Converts one object to drafts, without regard to the other objects.
fn draft_objects(
    kind: &InputKind,
    object: &Value,
    options: &Options,
    mut notes: Notes,
) -> Vec<(DraftKind, Value, Notes)> {
    let from = Section::root(object);
    if let InputKind::Workload(template) = kind {
        let mut workload = object.clone();
        workloads::convert(&mut workload, template, &mut notes);
        return vec![(DraftKind::Workload, workload, notes)];
    }
    let metadata = metadata::convert(&from, &mut notes);
    // The fields of a v1 object are not checked here, but it has to be a mapping.
    from.section("spec", &mut notes);
    let spec = object.get("spec").cloned();
    match kind {
        InputKind::Provisioner => {
            let pool = provisioner::convert(&from, options, &mut notes);
            let class = pool.inline_class.map(|(spec, notes)| {
                let metadata = json!({ "name": metadata["name"] });
                (DraftKind::InlineClass, node_class(metadata, Some(spec)), notes)
            });
            let part = DraftKind::Pool { kubelet: pool.kubelet };
            let pool = (part, node_pool(metadata, Some(pool.spec)), notes);
            [pool].into_iter().chain(class).collect()
        }
        InputKind::BetaNodePool => {
            let (spec, kubelet) = nodepool::convert(&from, &mut notes);
            vec![(DraftKind::Pool { kubelet }, node_pool(metadata, Some(spec)), notes)]
        }
        InputKind::NodePool => {
            let kubelet =
                kubelet::read_annotation(&from.section("metadata", &mut notes), &mut notes);
            vec![(DraftKind::Pool { kubelet }, node_pool(metadata, spec), notes)]
        }
        InputKind::NodeTemplate => {
            let spec = node_template::convert(&from, options, &mut notes);
            vec![(DraftKind::Class, node_class(metadata, Some(spec)), notes)]
        }
        InputKind::BetaNodeClass => {
            let spec = nodeclass::convert(&from, &mut notes);
            vec![(DraftKind::Class, node_class(metadata, Some(spec)), notes)]
        }
        InputKind::NodeClass => vec![(DraftKind::Class, node_class(metadata, spec), notes)],
        InputKind::Workload(_) | InputKind::Recreated { .. } | InputKind::Other { .. } => {
            Vec::new()
        }
    }
}

fn node_pool(metadata: Value, spec: Option<Value>) -> Value {
    v1_object(labels::GROUP, NODE_POOL, metadata, spec)
}

fn node_class(metadata: Value, spec: Option<Value>) -> Value {
    v1_object(aws::GROUP, EC2_NODE_CLASS, metadata, spec)
}

fn v1_object(group: &str, kind: &str, metadata: Value, spec: Option<Value>) -> Value {
    let mut object = Map::new();
    object.insert("apiVersion".into(), format!("{group}/v1").into());
    object.insert("kind".into(), kind.into());
    object.insert("metadata".into(), metadata);
    object.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    object.into()
}

fn subject_of(object: &Value) -> Subject {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    Subject {
        kind: text("/kind").unwrap_or_default().to_owned(),
        name: text("/metadata/name").or(text("/metadata/generateName")).unwrap_or("?").to_owned(),
    }
}

#[cfg(test)]
mod tests;
