//! Sets of small numbers, stored as bits.
//!
//! Only what the solver's inner loop needs. A fixed-size bitset crate allocates for each result;
//! here the common operations work on slices, and sets of up to 256 members live without the heap.

use smallvec::SmallVec;

/// A set of small numbers. Its size is fixed at construction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BitSet {
    words: SmallVec<[u64; 4]>,
}

impl BitSet {
    /// Returns an empty set for numbers below `size`.
    pub(crate) fn empty(size: usize) -> Self {
        Self { words: SmallVec::from_elem(0, size.div_ceil(64)) }
    }

    /// Returns the set of all numbers below `size`.
    pub(crate) fn full(size: usize) -> Self {
        let mut bits = Self::empty(size);
        for number in 0..size {
            bits.insert(number);
        }
        bits
    }

    /// Adds a member.
    pub(crate) fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Returns whether a number is a member. Numbers beyond the size are not.
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Whether there is no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Keeps the members that `other` has too.
    pub(crate) fn intersect_with(&mut self, other: &Self) {
        let masks = other.words.iter().copied().chain(std::iter::repeat(0));
        for (word, mask) in self.words.iter_mut().zip(masks) {
            *word &= mask;
        }
    }

    /// Adds the members of `other`.
    pub(crate) fn union_with(&mut self, other: &Self) {
        for (word, &more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Returns whether both sets have a member in common.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(position, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    position * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bits(members: &BTreeSet<usize>) -> BitSet {
        let mut bits = BitSet::empty(300);
        for &member in members {
            bits.insert(member);
        }
        bits
    }

    proptest! {
        #[test]
        fn bit_set_operations_agree_with_btree_sets(
            a in prop::collection::btree_set(0_usize..300, 0..40),
            b in prop::collection::btree_set(0_usize..300, 0..40),
        ) {
            let (mut kept, mut both) = (bits(&a), bits(&a));
            kept.intersect_with(&bits(&b));
            both.union_with(&bits(&b));
            prop_assert_eq!(kept.iter().collect::<BTreeSet<_>>(), &a & &b);
            prop_assert_eq!(both.iter().collect::<BTreeSet<_>>(), &a | &b);
            prop_assert_eq!(bits(&a).intersects(&bits(&b)), !a.is_disjoint(&b));
            prop_assert_eq!(bits(&a).is_empty(), a.is_empty());
            prop_assert!((0..400).all(|n| bits(&a).contains(n) == a.contains(&n)));
        }
    }

    #[test]
    fn all_has_exactly_the_numbers_below_its_size() {
        for size in [0, 1, 63, 64, 65, 144] {
            assert_eq!(
                BitSet::full(size).iter().collect::<Vec<_>>(),
                (0..size).collect::<Vec<_>>()
            );
        }
    }
}
