//! Kubelet settings move from the pools to the node class that they share (spec 10 §16.3.4).
//!
//! Pools that refer to one class and agree on their settings form a group. One group keeps the
//! class, every other group gets a copy of it.

use std::collections::BTreeMap;

use karpenter_api::labels::aws;
use serde_json::{Value, json};

use super::draft::{Draft, Part, failed_inputs};
use super::kubelet::canonical;
use super::notes::Note;
use super::{EC2_NODE_CLASS, Link};
use crate::manifest::{FieldPath, write};

/// Moves the kubelet settings of every pool. Returns which inputs now depend on each other.
pub(super) fn place(drafts: &mut Vec<Draft>) -> Vec<Link> {
    let failed = failed_inputs(drafts);
    let mut classes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut pools: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        if failed.contains(&draft.input) {
            continue;
        }
        if draft.is_class() {
            classes.entry(draft.name().to_owned()).or_default().push(index);
        } else if let Some(class) = class_of(draft) {
            pools.entry(class.to_owned()).or_default().push(index);
        }
    }
    let mut placement = Placement { drafts, classes, links: Vec::new() };
    for (class, mut pools) in pools {
        pools.sort_by(|a, b| placement.drafts[*a].name().cmp(placement.drafts[*b].name()));
        if placement.classes.contains_key(&class) {
            placement.hand_over(&class, &pools);
        } else {
            placement.by_hand(&class, &pools);
        }
    }
    placement.links
}

/// The EC2NodeClass that a pool refers to.
fn class_of(draft: &Draft) -> Option<&str> {
    let Part::Pool { .. } = draft.part else { return None };
    let reference = draft.object.pointer("/spec/template/spec/nodeClassRef")?;
    let is_ours = reference["group"] == aws::GROUP && reference["kind"] == EC2_NODE_CLASS;
    reference["name"].as_str().filter(|_| is_ours)
}

struct Placement<'a> {
    drafts: &'a mut Vec<Draft>,
    /// The drafts of each class; several where the input repeats itself.
    classes: BTreeMap<String, Vec<usize>>,
    links: Vec<Link>,
}

/// Pools that agree on their settings, sorted by name.
struct Group {
    settings: Option<Value>,
    pools: Vec<usize>,
}

impl Placement<'_> {
    fn hand_over(&mut self, class: &str, pools: &[usize]) {
        let twins = self.classes[class].clone();
        let own = self.drafts[twins[0]].object.pointer("/spec/kubelet").cloned();
        let own = own.filter(|kubelet| kubelet.as_object().is_some_and(|all| !all.is_empty()));
        for pool in pools.iter().filter(|pool| self.drafts[**pool].kubelet().is_some()) {
            self.links.push((self.drafts[*pool].input, self.drafts[twins[0]].input));
        }
        let mut groups = self.groups(pools, own.as_ref());
        if let Some(own) = &own {
            let own = canonical(own);
            groups.retain(|group| group.settings.as_ref().map(canonical).as_ref() != Some(&own));
        } else if let Some(settings) = groups.remove(keeper(&groups)).settings {
            for twin in &twins {
                self.drafts[*twin].object["spec"]["kubelet"] = settings.clone();
            }
        }
        for group in groups {
            self.copy(twins[0], &group);
        }
    }

    /// The groups of pools, in the order of their first pools. A pool without settings takes what
    /// the class has.
    fn groups(&self, pools: &[usize], own: Option<&Value>) -> Vec<Group> {
        let mut groups: Vec<(Option<String>, Group)> = Vec::new();
        for pool in pools {
            let kubelet = self.drafts[*pool].kubelet();
            let settings = kubelet.map(|kubelet| &kubelet.settings).or(own);
            let key = settings.map(canonical);
            if let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == key) {
                group.pools.push(*pool);
            } else {
                let group = Group { settings: settings.cloned(), pools: vec![*pool] };
                groups.push((key, group));
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Gives a group a class of its own.
    fn copy(&mut self, class: usize, group: &Group) {
        let name = self.copy_name(self.drafts[class].name(), group);
        let mut object = self.drafts[class].object.clone();
        object["metadata"]["name"] = name.clone().into();
        object["spec"]["kubelet"] = group.settings.clone().unwrap_or_default();
        match self.classes.get(&name) {
            Some(taken) if self.drafts[taken[0]].object["spec"] != object["spec"] => {
                let note = Note::NameTaken { kind: EC2_NODE_CLASS, name };
                return self.tell(group, &note);
            }
            Some(_) => {}
            None => {
                let mut notes = self.drafts[class].notes.fresh();
                let note = Note::ClassCopied { name: name.clone() };
                notes.add(&FieldPath::of("spec.kubelet"), note);
                let input = self.drafts[class].input;
                self.classes.insert(name.clone(), vec![self.drafts.len()]);
                self.drafts.push(Draft { input, part: Part::Class, object, notes });
            }
        }
        for pool in &group.pools {
            let node = &mut self.drafts[*pool].object["spec"]["template"]["spec"];
            node["nodeClassRef"]["name"] = name.clone().into();
        }
    }

    /// The class is somewhere else, so that only the operator can change it.
    fn by_hand(&mut self, class: &str, pools: &[usize]) {
        let groups = self.groups(pools, None);
        let keeper = keeper(&groups);
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
            self.tell(group, &Note::KubeletByHand { class, block });
        }
    }

    fn copy_name(&self, class: &str, group: &Group) -> String {
        format!("{class}-{}", self.drafts[group.pools[0]].name())
    }

    /// Says something about the kubelet block of each pool of a group.
    fn tell(&mut self, group: &Group, note: &Note) {
        for pool in &group.pools {
            let pool = &mut self.drafts[*pool];
            let field = pool.kubelet().map(|kubelet| kubelet.field.clone()).unwrap_or_default();
            pool.notes.add(&field, note.clone());
        }
    }
}

/// The group that keeps the class: the one without settings, else that of the first pool.
fn keeper(groups: &[Group]) -> usize {
    groups.iter().position(|group| group.settings.is_none()).unwrap_or(0)
}
