//! Converted objects before they are written: name conflicts and failed inputs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::kubelet::Kubelet;
use super::notes::{Finding, Note, Notes, Subject};
use super::{EC2_NODE_CLASS, NODE_POOL};
use crate::manifest::FieldPath;

/// One object that will be written if nothing speaks against it.
#[derive(Debug)]
pub(super) struct Draft {
    /// Index of the input object that it comes from.
    pub(super) input: usize,
    pub(super) kind: DraftKind,
    pub(super) object: Value,
    pub(super) notes: Notes,
}

/// The kind of a draft, as far as other drafts depend on it.
#[derive(Debug)]
pub(super) enum DraftKind {
    Pool {
        kubelet: Option<Kubelet>,
    },
    Class,
    /// A class that a Provisioner described inline.
    InlineClass,
    Workload,
}

impl Draft {
    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn is_class(&self) -> bool {
        matches!(self.kind, DraftKind::Class | DraftKind::InlineClass)
    }

    pub(super) fn kubelet(&self) -> Option<&Kubelet> {
        match &self.kind {
            DraftKind::Pool { kubelet } => kubelet.as_ref(),
            _ => None,
        }
    }

    /// Returns the spec and the kubelet settings: all content except metadata.
    fn content(&self) -> (&Value, Option<&Value>) {
        (&self.object["spec"], self.kubelet().map(|kubelet| &kubelet.settings))
    }

    /// Adds an error that the API server or the controller would report.
    pub(super) fn add_validation_error(&mut self, field: FieldPath, message: String) {
        let kind = self.object["kind"].as_str().unwrap_or_default().to_owned();
        let subject = Subject { kind, name: self.name().to_owned() };
        self.notes.findings.push(Finding { subject, field, note: Note::Invalid { message } });
    }
}

/// The inputs of which nothing will be written.
pub(super) fn failed_inputs(drafts: &[Draft]) -> BTreeSet<usize> {
    drafts.iter().filter(|draft| draft.notes.has_error()).map(|draft| draft.input).collect()
}

/// Adds an error to drafts with equal names and different content (E04). An inline class equal to a
/// class of that name is left out: the pool refers to the other one.
pub(super) fn resolve_name_conflicts(drafts: &mut Vec<Draft>) {
    let failed = failed_inputs(drafts);
    let mut claims: BTreeMap<(&'static str, String), Vec<usize>> = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        let kind = match draft.kind {
            DraftKind::Pool { .. } => NODE_POOL,
            DraftKind::Class | DraftKind::InlineClass => EC2_NODE_CLASS,
            DraftKind::Workload => continue,
        };
        if !failed.contains(&draft.input) {
            claims.entry((kind, draft.name().to_owned())).or_default().push(index);
        }
    }
    let mut spare = BTreeSet::new();
    for ((kind, name), mut claimants) in claims {
        // An inline class gives way to any other, the rest to those before them.
        claimants.sort_by_key(|index| matches!(drafts[*index].kind, DraftKind::InlineClass));
        let [owner, rivals @ ..] = &claimants[..] else { continue };
        for rival in rivals {
            let same = drafts[*owner].content() == drafts[*rival].content();
            let inline = matches!(drafts[*rival].kind, DraftKind::InlineClass);
            if !same {
                let field =
                    FieldPath::parse(if inline { "spec.provider" } else { "metadata.name" });
                drafts[*rival].notes.add(&field, Note::NameTaken { kind, name: name.clone() });
            } else if inline {
                spare.insert(*rival);
            }
        }
    }
    let mut index = 0;
    drafts.retain(|_| {
        index += 1;
        !spare.contains(&(index - 1))
    });
}
