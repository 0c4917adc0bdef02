//! Laws of the requirement algebra (spec 10 §10.3).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::requirement::{Aliases, Operator, Requirement, RequirementItem, Requirements};
use proptest::prelude::*;

const KEY: &str = "key";

/// Texts that operators treat differently: words, integers around the bounds, and integers that are
/// written in an unusual way.
const VALUES: [&str; 12] =
    ["", "A", "B", "1.5", "-1", "0", "1", "2", "3", "007", "+2", "9223372036854775807"];

fn value() -> impl Strategy<Value = String> {
    prop::sample::select(&VALUES[..]).prop_map(str::to_owned)
}

fn bound() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -3..6_i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn item() -> impl Strategy<Value = RequirementItem> {
    let operator = prop::sample::select(&Operator::ALL[..]);
    let min_values = prop::option::of(0..4_u32);
    (operator, prop::collection::vec(value(), 0..4), bound(), min_values).prop_map(
        |(operator, values, bound, min_values)| {
            let is_numeric =
                matches!(operator, Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte);
            let values = if is_numeric { vec![bound.to_string()] } else { values };
            RequirementItem { key: KEY.to_owned(), operator, values, min_values }
        },
    )
}

fn list<'a>(items: impl IntoIterator<Item = &'a RequirementItem>) -> Requirements {
    Requirements::from_items(items, &Aliases::default()).expect("bounds are integers")
}

/// Everything that intersections of items can reach.
fn requirement() -> impl Strategy<Value = Requirement> {
    prop::collection::vec(item(), 1..4)
        .prop_map(|items| list(&items).get(KEY).expect("has one item at least").clone())
}

/// A few keys, each with or without a value on one side and a requirement on the other.
fn labels() -> impl Strategy<Value = BTreeMap<&'static str, String>> {
    prop::collection::btree_map(prop::sample::select(&["a", "b", "c"][..]), value(), 0..3)
}

fn any_requirements() -> impl Strategy<Value = Requirements> {
    let keyed = (prop::sample::select(&["a", "b", "c"][..]), item());
    prop::collection::vec(keyed, 0..4).prop_map(|items| {
        let items: Vec<_> = items
            .into_iter()
            .map(|(key, item)| RequirementItem { key: key.to_owned(), ..item })
            .collect();
        list(&items)
    })
}

proptest! {
    #[test]
    fn intersection_is_idempotent_and_commutative(a in requirement(), b in requirement()) {
        prop_assert_eq!(a.intersection(&a), a.clone());
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
    }

    #[test]
    fn intersection_is_associative(a in requirement(), b in requirement(), c in requirement()) {
        prop_assert_eq!(
            a.intersection(&b).intersection(&c),
            a.intersection(&b.intersection(&c))
        );
    }

    #[test]
    fn an_intersection_allows_exactly_the_values_that_both_allow(
        a in requirement(),
        b in requirement(),
        n in -5..10_i64,
    ) {
        let both = a.intersection(&b);
        for value in VALUES.iter().map(ToString::to_string).chain([n.to_string()]) {
            prop_assert_eq!(both.has(&value), a.has(&value) && b.has(&value), "{}", value);
        }
    }

    /// The exact law: `has_intersection` says whether the intersection is anything but
    /// DoesNotExist. That is more than "some value is allowed by both" only for two complements,
    /// whose exclusions may cover every integer between their bounds.
    #[test]
    fn has_intersection_is_false_only_for_an_empty_intersection(
        a in requirement(),
        b in requirement(),
    ) {
        let meets = a.has_intersection(&b);
        prop_assert_eq!(meets, a.intersection(&b).operator() != Operator::DoesNotExist);
        prop_assert_eq!(meets, !a.intersection(&b).is_empty());
        prop_assert_eq!(meets, b.has_intersection(&a));

        let common = a.values().union(b.values()).any(|v| a.has(v) && b.has(v));
        prop_assert!(meets || !common);
        if !a.is_complement() || !b.is_complement() {
            prop_assert_eq!(meets, common);
        }
    }

    /// Writing and reading back is the identity, except that a bound hides the exclusions.
    #[test]
    fn items_parse_back_to_the_same_requirement(requirement in requirement()) {
        let read = list(&requirement.items());
        let read = read.get(KEY).unwrap();
        let is_bounded = requirement.gte().is_some() || requirement.lte().is_some();
        if is_bounded {
            prop_assert!(read.values().is_empty());
            prop_assert_eq!((read.gte(), read.lte()), (requirement.gte(), requirement.lte()));
            prop_assert_eq!(read.min_values(), requirement.min_values());
            // Values outside the bounds stay excluded.
            let excluded = Requirement::not_in(KEY, requirement.values());
            prop_assert_eq!(&read.intersection(&excluded), &requirement);
        } else {
            prop_assert_eq!(read, &requirement);
        }
    }

    #[test]
    fn a_picked_value_is_allowed(requirement in requirement(), rng in any::<u64>()) {
        match requirement.pick_value(rng) {
            Some(value) => prop_assert!(requirement.has(&value), "{}", value),
            None => prop_assert!(requirement.is_complement() || requirement.is_empty()),
        }
    }

    #[test]
    fn length_and_operator_agree(requirement in requirement()) {
        let len = requirement.len();
        match requirement.operator() {
            Operator::DoesNotExist => prop_assert_eq!(len, 0),
            Operator::In => prop_assert!(0 < len && len < 100),
            Operator::NotIn => prop_assert!(i64::MAX - 100 < len && len < i64::MAX),
            Operator::Exists => prop_assert_eq!(len, i64::MAX),
            numeric => prop_assert!(false, "{numeric} is never reported"),
        }
    }

    /// Against concrete labels, strict compatibility is what a nodeSelector means: each key has an
    /// allowed value, or is absent where that is allowed.
    #[test]
    fn strict_compatibility_with_labels_is_plain_selection(
        labels in labels(),
        requested in any_requirements(),
    ) {
        let pairs = labels.iter().map(|(&key, value)| (key, value.as_str()));
        let node = Requirements::from_labels(pairs, &Aliases::default());
        let selected = requested.iter().all(|requirement| match labels.get(requirement.key()) {
            Some(value) => requirement.has(value),
            None => requirement.allows_absence(),
        });
        prop_assert_eq!(node.compatible(&requested, &BTreeSet::new()).is_ok(), selected);
    }

    #[test]
    fn order_of_items_does_not_matter(
        items in prop::collection::vec(item(), 0..5).prop_shuffle(),
    ) {
        let forward = list(&items);
        let backward = list(items.iter().rev());
        prop_assert_eq!(&forward, &backward);
        prop_assert_eq!(forward.to_string(), backward.to_string());
    }
}
