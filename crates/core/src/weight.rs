//! The order in which weighted objects are tried: NodePools (spec 10 §14.3), NodeOverlays (§4.4).

/// Sorts by decreasing `spec.weight` (absent is 0), then by decreasing name.
pub fn order_by_weight<T>(items: &mut [T], weight_and_name: impl Fn(&T) -> (Option<i32>, &str)) {
    items.sort_by(|a, b| {
        let (weight_a, name_a) = weight_and_name(a);
        let (weight_b, name_b) = weight_and_name(b);
        weight_b.unwrap_or(0).cmp(&weight_a.unwrap_or(0)).then(name_b.cmp(name_a))
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Weighted = (Option<i32>, &'static str);

    fn sorted(mut items: Vec<Weighted>) -> Vec<Weighted> {
        order_by_weight(&mut items, |&(weight, name)| (weight, name));
        items
    }

    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

    #[test]
    fn node_pools_are_ordered_by_weight_then_by_reverse_name() {
        let cases = [
            (
                "10/LM-3",
                vec![(Some(50), "b"), (None, "c"), (Some(50), "a")],
                vec![(Some(50), "b"), (Some(50), "a"), (None, "c")],
            ),
            (
                "absent weight is 0",
                vec![(Some(0), "a"), (None, "b"), (Some(1), "c"), (Some(-1), "d")],
                vec![(Some(1), "c"), (None, "b"), (Some(0), "a"), (Some(-1), "d")],
            ),
        ];
        for (case, given, expected) in cases {
            assert_eq!(sorted(given), expected, "{case}");
        }
    }

    #[test]
    fn overlays_of_one_weight_are_ordered_by_reverse_name() {
        let case = "10/NO-15";
        let shuffled = [3, 9, 0, 4, 7, 1, 8, 2, 6, 5].map(|i| (Some(10), NAMES[i]));
        let names = sorted(shuffled.to_vec()).into_iter().map(|(_, name)| name);
        assert!(names.eq(NAMES.into_iter().rev()), "{case}");
    }

    proptest! {
        #[test]
        fn overlays_are_ordered_by_non_increasing_weight(
            weights in prop::array::uniform10(prop::option::of(1..=10_000_i32)),
        ) {
            let case = "10/NO-15";
            let weights = sorted(weights.into_iter().zip(NAMES).collect())
                .into_iter()
                .map(|(weight, _)| weight.unwrap_or(0));
            prop_assert!(weights.is_sorted_by(|a, b| a >= b), "{case}");
        }
    }
}
