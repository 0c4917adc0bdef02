//! Moves kubelet settings from pools to the node class that they share (spec 10 §16.3.4).
//!
//! Pools that refer to one class and agree on their settings form a group. One group keeps the
//! class, every other group gets a copy of it.

use std::collections::BTreeMap;

use karpenter_api::labels::aws;
use serde_json::{Value, json};

use super::draft::{Draft, DraftKind, failed_inputs};
use super::kubelet::canonical_text;
use super::notes::Note;
use super::{EC2_NODE_CLASS, PoolClassLink};
use crate::manifest::{FieldPath, write};

/// Moves the kubelet settings of all pools. Returns the dependent pairs of inputs.
pub(super) fn move_kubelet_settings(drafts: &mut Vec<Draft>) -> Vec<PoolClassLink> {
    let failed = failed_inputs(drafts);
    let mut classes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut pools: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        if failed.contains(&draft.input) {
            continue;
        }
        if draft.is_class() {
            classes.entry(draft.name().to_owned()).or_default().push(index);
        } else if let Some(class) = referenced_class(draft) {
            pools.entry(class.to_owned()).or_default().push(index);
        }
    }
    let mut placement = KubeletMigration { drafts, classes, links: Vec::new() };
    for (class, mut pools) in pools {
        pools.sort_by(|a, b| placement.drafts[*a].name().cmp(placement.drafts[*b].name()));
        if placement.classes.contains_key(&class) {
            placement.move_to_class(&class, &pools);
        } else {
            placement.report_blocks_to_add(&class, &pools);
        }
    }
    placement.links
}

/// Returns the name of the EC2NodeClass that a pool refers to.
fn referenced_class(draft: &Draft) -> Option<&str> {
    let DraftKind::Pool { .. } = draft.kind else { return None };
    let reference = draft.object.pointer("/spec/template/spec/nodeClassRef")?;
    let is_ours = reference["group"] == aws::GROUP && reference["kind"] == EC2_NODE_CLASS;
    reference["name"].as_str().filter(|_| is_ours)
}

struct KubeletMigration<'a> {
    drafts: &'a mut Vec<Draft>,
    /// The drafts of each class; several where the input repeats itself.
    classes: BTreeMap<String, Vec<usize>>,
    links: Vec<PoolClassLink>,
}

/// Pools with one class and equal kubelet settings, sorted by name.
struct PoolGroup {
    settings: Option<Value>,
    pools: Vec<usize>,
}

impl KubeletMigration<'_> {
    fn move_to_class(&mut self, class: &str, pools: &[usize]) {
        let same_name_classes = self.classes[class].clone();
        let own = self.drafts[same_name_classes[0]].object.pointer("/spec/kubelet").cloned();
        let own = own.filter(|kubelet| kubelet.as_object().is_some_and(|all| !all.is_empty()));
        for pool in pools.iter().filter(|pool| self.drafts[**pool].kubelet().is_some()) {
            self.links.push((self.drafts[*pool].input, self.drafts[same_name_classes[0]].input));
        }
        let mut groups = self.groups(pools, own.as_ref());
        if let Some(own) = &own {
            let own = canonical_text(own);
            groups
                .retain(|group| group.settings.as_ref().map(canonical_text).as_ref() != Some(&own));
        } else if let Some(settings) = groups.remove(class_keeper(&groups)).settings {
            for class_draft in &same_name_classes {
                self.drafts[*class_draft].object["spec"]["kubelet"] = settings.clone();
            }
        }
        for group in groups {
            self.copy_class(same_name_classes[0], &group);
        }
    }

    /// The groups of pools, in the order of their first pools. A pool without settings takes what
    /// the class has.
    fn groups(&self, pools: &[usize], own: Option<&Value>) -> Vec<PoolGroup> {
        let mut groups: Vec<(Option<String>, PoolGroup)> = Vec::new();
        for pool in pools {
            let kubelet = self.drafts[*pool].kubelet();
            let settings = kubelet.map(|kubelet| &kubelet.settings).or(own);
            let key = settings.map(canonical_text);
            if let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == key) {
                group.pools.push(*pool);
            } else {
                let group = PoolGroup { settings: settings.cloned(), pools: vec![*pool] };
                groups.push((key, group));
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Creates a copy of the class for a group.
    fn copy_class(&mut self, class: usize, group: &PoolGroup) {
        let name = self.copy_name(self.drafts[class].name(), group);
        let mut object = self.drafts[class].object.clone();
        object["metadata"]["name"] = name.clone().into();
        object["spec"]["kubelet"] = group.settings.clone().unwrap_or_default();
        match self.classes.get(&name) {
            Some(taken) if self.drafts[taken[0]].object["spec"] != object["spec"] => {
                let note = Note::NameTaken { kind: EC2_NODE_CLASS, name };
                return self.add_note(group, &note);
            }
            Some(_) => {}
            None => {
                let mut notes = self.drafts[class].notes.empty_for_same_object();
                let note = Note::ClassCopied { name: name.clone() };
                notes.add(&FieldPath::parse("spec.kubelet"), note);
                let input = self.drafts[class].input;
                self.classes.insert(name.clone(), vec![self.drafts.len()]);
                self.drafts.push(Draft { input, kind: DraftKind::Class, object, notes });
            }
        }
        for pool in &group.pools {
            let node = &mut self.drafts[*pool].object["spec"]["template"]["spec"];
            node["nodeClassRef"]["name"] = name.clone().into();
        }
    }

    /// Adds the block to add to the class, which is not in the input.
    fn report_blocks_to_add(&mut self, class: &str, pools: &[usize]) {
        let groups = self.groups(pools, None);
        let keeper = class_keeper(&groups);
        for (position, group) in groups.iter().enumerate() {
            let Some(settings) = &group.settings else { continue };
            let mut block = write::yaml(&json!({ "spec": { "kubelet": settings } }));
            let mut class = class.to_owned();
            if position != keeper {
                // Two blocks cannot stand in one class.
                block
                    .insert_str(0, &format!("# a copy of {class}, which the pool must refer to\n"));
                class = self.copy_name(&class, group);
            }
            self.add_note(group, &Note::KubeletBlockToAdd { class, block });
        }
    }

    fn copy_name(&self, class: &str, group: &PoolGroup) -> String {
        format!("{class}-{}", self.drafts[group.pools[0]].name())
    }

    /// Adds a note about the kubelet block to each pool of a group.
    fn add_note(&mut self, group: &PoolGroup, note: &Note) {
        for pool in &group.pools {
            let pool = &mut self.drafts[*pool];
            let field = pool.kubelet().map(|kubelet| kubelet.field.clone()).unwrap_or_default();
            pool.notes.add(&field, note.clone());
        }
    }
}

/// Returns the group that keeps the class: without settings, else the first.
fn class_keeper(groups: &[PoolGroup]) -> usize {
    groups.iter().position(|group| group.settings.is_none()).unwrap_or(0)
}
