//! How many pods each domain of a topology group has.

use rustc_hash::FxHashMap;

/// The number of domains that the list may always have.
const MIN_DENSE_DOMAINS: usize = 64;
/// The most entries of the list for each domain with pods.
const MAX_DENSE_RATIO: usize = 4;

/// The number of pods by domain number.
///
/// The first domains are in a list, which every candidate reads, and the others in a map: lists
/// alone would take 1.6 GB for twenty thousand groups with a pod each on one of as many hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    dense: Vec<u32>,
    sparse: FxHashMap<usize, u32>,
    occupied: usize,
}

impl Counts {
    pub(super) fn get(&self, domain: usize) -> u32 {
        match self.dense.get(domain) {
            Some(&count) => count,
            None if self.sparse.is_empty() => 0,
            None => self.sparse.get(&domain).copied().unwrap_or(0),
        }
    }

    pub(super) fn add(&mut self, domain: usize, pods: u32) {
        if self.dense.len() <= domain
            && domain < MIN_DENSE_DOMAINS.max(MAX_DENSE_RATIO * self.occupied)
        {
            let before = self.dense.len();
            self.dense.resize(domain + 1, 0);
            let moved = self.dense.iter_mut().enumerate().skip(before);
            if !self.sparse.is_empty() {
                moved.for_each(|(domain, count)| *count = self.sparse.remove(&domain).unwrap_or(0));
            }
        }
        let count = match self.dense.get_mut(domain) {
            Some(count) => count,
            None => self.sparse.entry(domain).or_insert(0),
        };
        self.occupied += usize::from(*count == 0 && pods > 0);
        *count = count.saturating_add(pods);
    }

    /// Removes pods that were added before.
    pub(super) fn remove(&mut self, domain: usize, pods: u32) {
        let count = match self.dense.get_mut(domain) {
            Some(count) => count,
            None => match self.sparse.get_mut(&domain) {
                Some(count) => count,
                None => return,
            },
        };
        let before = *count;
        *count = count.saturating_sub(pods);
        self.occupied -= usize::from(before > 0 && *count == 0);
    }

    /// Returns how many domains have pods.
    pub(super) fn occupied(&self) -> usize {
        self.occupied
    }

    /// Returns the domains with pods, in no order.
    pub(super) fn domains(&self) -> impl Iterator<Item = usize> {
        let dense = self.dense.iter().enumerate().filter(|(_, count)| **count > 0);
        let sparse = self.sparse.iter().filter(|(_, count)| **count > 0);
        dense.map(|(domain, _)| domain).chain(sparse.map(|(domain, _)| *domain))
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
