//! Finds the groups that may select a pod, and the pods that a group may select.
//!
//! Twenty thousand pods that each spread by a label of their own are as many groups as pods: to
//! compare each pod with each group took half a minute, and takes half a second this way. Nearly
//! every selector names a value of some label, so one such label leads from a pod to the few groups
//! that may select it, and from a group to the few pods that it may select. The caller then checks
//! the whole selector.

use rustc_hash::FxHashMap;

use super::topology_groups::{GroupId, GroupIdentity};
use crate::selector::{Condition, LabelSelector, Labels, Selector};

/// Numbers by label key and value.
type ByLabel = FxHashMap<String, FxHashMap<String, Vec<u32>>>;

/// Topology groups, indexed by the labels that their selectors name.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupIndex {
    /// By namespace; groups of several namespaces are under the empty name.
    namespaces: FxHashMap<String, Groups>,
}

/// Groups in ascending order.
#[derive(Clone, Debug, Default)]
struct Groups {
    by_label: ByLabel,
    /// Groups whose selectors name no value.
    others: Vec<u32>,
}

impl GroupIndex {
    /// Adds a group that is newer than all others.
    pub(super) fn insert(&mut self, group: GroupId, identity: &GroupIdentity) {
        let mut names = identity.namespaces.iter();
        let namespace = match (names.next(), names.next()) {
            (Some(only), None) => only.as_str(),
            _ => "",
        };
        let Selector::Matching(selector) = &identity.selector else { return };
        let groups = self.namespaces.entry(namespace.to_owned()).or_default();
        let count = |key: &str, value: &str| list(&groups.by_label, key, value).len() + 1;
        match anchor(selector, count) {
            None => groups.others.push(group.0),
            Some((key, values)) => {
                let by_value = groups.by_label.entry(key.to_owned()).or_default();
                for value in values {
                    by_value.entry(value.to_owned()).or_default().push(group.0);
                }
            }
        }
    }

    /// Returns groups from number `from` on that may select these labels, in order.
    pub(super) fn groups_for_labels(
        &self,
        namespace: &str,
        labels: &Labels,
        from: usize,
    ) -> Vec<GroupId> {
        let mut found = Vec::new();
        let mut add = |groups: &[u32]| {
            let old = groups.partition_point(|&group| (group as usize) < from);
            found.extend(groups[old..].iter().copied().map(GroupId));
        };
        for groups in [namespace, ""].iter().filter_map(|name| self.namespaces.get(*name)) {
            add(&groups.others);
            for (key, value) in labels {
                add(list(&groups.by_label, key, value));
            }
        }
        found.sort_unstable();
        // The empty namespace is read twice.
        found.dedup();
        found
    }
}

/// Namespaces and labels of pods, indexed for the selectors of groups.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelsIndex {
    namespaces: FxHashMap<String, Members>,
}

#[derive(Clone, Debug, Default)]
struct Members {
    by_label: ByLabel,
    all: Vec<u32>,
}

impl LabelsIndex {
    pub(super) fn insert(&mut self, number: u32, namespace: &str, labels: &Labels) {
        let members = self.namespaces.entry(namespace.to_owned()).or_default();
        members.all.push(number);
        for (key, value) in labels {
            let by_value = members.by_label.entry(key.clone()).or_default();
            by_value.entry(value.clone()).or_default().push(number);
        }
    }

    /// Returns the numbers of the labels that a group may select.
    pub(super) fn selected_by(&self, identity: &GroupIdentity) -> Vec<u32> {
        let Selector::Matching(selector) = &identity.selector else { return Vec::new() };
        let mut found = Vec::new();
        for members in identity.namespaces.iter().filter_map(|name| self.namespaces.get(name)) {
            match anchor(selector, |key, value| list(&members.by_label, key, value).len()) {
                None => found.extend_from_slice(&members.all),
                Some((key, values)) => {
                    let lists = values.iter().map(|value| list(&members.by_label, key, value));
                    lists.for_each(|list| found.extend_from_slice(list));
                }
            }
        }
        found
    }
}

fn list<'l>(by_label: &'l ByLabel, key: &str, value: &str) -> &'l [u32] {
    by_label.get(key).and_then(|by_value| by_value.get(value)).map_or(&[], Vec::as_slice)
}

/// Returns the label of a selector whose values have the fewest entries.
///
/// Each pod has at most one value of it, so nothing is found twice.
fn anchor(
    selector: &LabelSelector,
    count: impl Fn(&str, &str) -> usize,
) -> Option<(&str, Vec<&str>)> {
    let labels = selector.labels.iter().map(|(key, value)| (key.as_str(), vec![value.as_str()]));
    let listed = selector.expressions.iter().filter_map(|expression| match &expression.condition {
        Condition::In(values) => {
            Some((expression.key.as_str(), values.iter().map(String::as_str).collect()))
        }
        _ => None,
    });
    labels.chain(listed).min_by_key(|(key, values): &(&str, Vec<&str>)| {
        values.iter().map(|value| count(key, value)).sum::<usize>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejection::TopologyKind;
    use crate::selector::Expression;
    use proptest::prelude::*;
    use proptest::{collection, sample};

    const KEYS: [&str; 3] = ["app", "revision", "team"];
    const VALUES: [&str; 3] = ["a", "b", "c"];
    const NAMESPACES: [&str; 3] = ["", "default", "other"];

    fn any_labels() -> impl Strategy<Value = Labels> {
        let pair = (sample::select(&KEYS[..]), sample::select(&VALUES[..]));
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        collection::vec(pair.prop_map(owned), 0..3).prop_map(|pairs| pairs.into_iter().collect())
    }

    fn any_expression() -> impl Strategy<Value = Expression> {
        let values = sample::subsequence(&VALUES[..], 0..3);
        (sample::select(&KEYS[..]), values, 0..4_u8).prop_map(|(key, values, kind)| {
            let values = values.into_iter().map(str::to_owned).collect();
            let condition = match kind {
                0 | 1 => Condition::In(values),
                2 => Condition::NotIn(values),
                _ => Condition::Exists,
            };
            Expression { key: key.to_owned(), condition }
        })
    }

    fn any_identity() -> impl Strategy<Value = GroupIdentity> {
        let namespaces = sample::subsequence(&NAMESPACES[..], 0..=3);
        let parts = (any_labels(), collection::vec(any_expression(), 0..2), namespaces);
        let parts = (parts, prop::bool::weighted(0.1));
        parts.prop_map(|((labels, expressions, namespaces), is_nothing)| GroupIdentity {
            is_inverse: false,
            kind: TopologyKind::Affinity,
            key: String::new(),
            namespaces: namespaces.into_iter().map(str::to_owned).collect(),
            selector: if is_nothing {
                Selector::Nothing
            } else {
                let expressions = expressions.into_iter().collect();
                Selector::Matching(LabelSelector { labels, expressions })
            },
            max_skew: 1,
            min_domains: None,
            filter: None,
        })
    }

    proptest! {
        #[test]
        fn every_selected_pod_and_group_is_found_once(
            groups in collection::vec(any_identity(), 0..12),
            pods in collection::vec((sample::select(&NAMESPACES[..]), any_labels()), 0..12),
            from in 0..6_usize,
        ) {
            let (mut selectors, mut labelled) = (GroupIndex::default(), LabelsIndex::default());
            for (group, identity) in (0..).zip(&groups) {
                selectors.insert(GroupId(group), identity);
            }
            for (pod, (namespace, labels)) in (0..).zip(&pods) {
                labelled.insert(pod, namespace, labels);
                let found = selectors.groups_for_labels(namespace, labels, from);
                let found: Vec<u32> = found.into_iter().map(|group| group.0).collect();
                let selects = |group: &u32| groups[*group as usize].selects(namespace, labels);
                let found: Vec<u32> = found.into_iter().filter(selects).collect();
                let all = (0..).zip(&groups).skip(from).map(|(group, _)| group);
                prop_assert_eq!(found, all.filter(selects).collect::<Vec<u32>>());
            }
            for identity in &groups {
                let selects = |pod: &u32| {
                    let (namespace, labels) = &pods[*pod as usize];
                    identity.selects(namespace, labels)
                };
                let mut found = labelled.selected_by(identity);
                found.sort_unstable();
                found.retain(|pod| selects(pod));
                let all = (0..).zip(&pods).map(|(pod, _)| pod).filter(selects);
                prop_assert_eq!(found, all.collect::<Vec<u32>>());
            }
        }
    }
}
