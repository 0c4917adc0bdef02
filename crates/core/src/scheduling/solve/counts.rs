//! How many pods each domain of a topology group has.

use rustc_hash::FxHashMap;

/// Domains below this always have a place in the list.
const ALWAYS: usize = 64;
/// A list is at most so many times as long as there are domains with pods.
const SPARSE: usize = 4;

/// Pods by domain number. A list as long as it pays, since it is looked at for every candidate;
/// beyond, a map: twenty thousand groups with a pod each on one of as many hosts would need lists of
/// 1.6 GB.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    near: Vec<u32>,
    far: FxHashMap<usize, u32>,
    occupied: usize,
}

impl Counts {
    pub(super) fn get(&self, domain: usize) -> u32 {
        match self.near.get(domain) {
            Some(&count) => count,
            None if self.far.is_empty() => 0,
            None => self.far.get(&domain).copied().unwrap_or(0),
        }
    }

    pub(super) fn add(&mut self, domain: usize, pods: u32) {
        if self.near.len() <= domain && domain < ALWAYS.max(SPARSE * self.occupied) {
            let before = self.near.len();
            self.near.resize(domain + 1, 0);
            let moved = self.near.iter_mut().enumerate().skip(before);
            if !self.far.is_empty() {
                moved.for_each(|(domain, count)| *count = self.far.remove(&domain).unwrap_or(0));
            }
        }
        let count = match self.near.get_mut(domain) {
            Some(count) => count,
            None => self.far.entry(domain).or_insert(0),
        };
        self.occupied += usize::from(*count == 0 && pods > 0);
        *count = count.saturating_add(pods);
    }

    /// Takes pods away that were added before.
    pub(super) fn remove(&mut self, domain: usize, pods: u32) {
        let count = match self.near.get_mut(domain) {
            Some(count) => count,
            None => match self.far.get_mut(&domain) {
                Some(count) => count,
                None => return,
            },
        };
        let before = *count;
        *count = count.saturating_sub(pods);
        self.occupied -= usize::from(before > 0 && *count == 0);
    }

    /// How many domains have pods.
    pub(super) fn occupied(&self) -> usize {
        self.occupied
    }

    /// Domains with pods, in no order.
    pub(super) fn domains(&self) -> impl Iterator<Item = usize> {
        let near = self.near.iter().enumerate().filter(|(_, count)| **count > 0);
        let far = self.far.iter().filter(|(_, count)| **count > 0);
        near.map(|(domain, _)| domain).chain(far.map(|(domain, _)| *domain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn counts_are_a_map_from_domains_to_pods(
            changes in prop::collection::vec((0_usize..400, 1_u32..3, any::<bool>()), 0..200),
        ) {
            let (mut counts, mut expected) = (Counts::default(), BTreeMap::new());
            for (domain, pods, is_added) in changes {
                let count = expected.entry(domain).or_insert(0_u32);
                if is_added {
                    counts.add(domain, pods);
                    *count += pods;
                } else {
                    counts.remove(domain, pods);
                    *count = count.saturating_sub(pods);
                }
                expected.retain(|_, count| *count > 0);
                prop_assert_eq!(counts.occupied(), expected.len());
            }
            prop_assert!((0..500).all(|d| counts.get(d) == expected.get(&d).copied().unwrap_or(0)));
            let mut domains: Vec<_> = counts.domains().collect();
            domains.sort_unstable();
            prop_assert_eq!(domains, expected.into_keys().collect::<Vec<_>>());
        }
    }
}
