//! Calculates the share of a device that a request takes, for devices of several claims (rule 12).

use std::collections::BTreeMap;

use super::types::{DeviceCapacity, RequestPolicy, ShareRange};
use crate::resources::{Notation, Quantity};

/// Returns how much a request takes of each capacity of a device.
///
/// None if the device cannot serve it: it lacks a capacity, or its policy has no such share.
pub(super) fn share(
    requests: &BTreeMap<String, Quantity>,
    capacity: &BTreeMap<String, DeviceCapacity>,
) -> Option<BTreeMap<String, Quantity>> {
    if requests.keys().any(|name| !capacity.contains_key(name)) {
        return None;
    }
    capacity
        .iter()
        .map(|(name, capacity)| {
            let amount = rounded(requests.get(name).copied(), capacity);
            is_allowed(amount, capacity.policy.as_ref()).then(|| (name.clone(), amount))
        })
        .collect()
}

fn rounded(requested: Option<Quantity>, capacity: &DeviceCapacity) -> Quantity {
    let policy = capacity.policy.as_ref();
    let Some(requested) = requested else {
        return policy.and_then(|policy| policy.default).unwrap_or(capacity.value);
    };
    match policy {
        Some(RequestPolicy { range: Some(range @ ShareRange { min: Some(min), .. }), .. }) => {
            rounded_into(requested, *min, range.step)
        }
        Some(policy) => {
            policy.values.iter().copied().find(|value| requested <= *value).unwrap_or(requested)
        }
        None => requested,
    }
}

/// The least of `min`, `min + step`, … that is enough. Steps are whole units.
fn rounded_into(requested: Quantity, min: Quantity, step: Option<Quantity>) -> Quantity {
    if requested < min {
        return min;
    }
    let Some(step) = step.map(Quantity::units).filter(|step| *step > 0) else { return requested };
    let above = requested.units().saturating_sub(min.units());
    let steps = above / step + i128::from(above % step != 0);
    let units = min.units().saturating_add(step.saturating_mul(steps));
    Quantity::from_units(i64::try_from(units).unwrap_or(i64::MAX)).with_notation(Notation::BinarySi)
}

fn is_allowed(amount: Quantity, policy: Option<&RequestPolicy>) -> bool {
    let Some(policy) = policy else { return true };
    if policy.default == Some(amount) {
        return true;
    }
    match &policy.range {
        Some(range) => {
            let is_on_step =
                range.step.map(Quantity::units).filter(|step| *step > 0).is_none_or(|step| {
                    let above = amount.units() - range.min.unwrap_or_default().units();
                    above % step == 0
                });
            range.max.is_none_or(|max| amount <= max) && is_on_step
        }
        None => policy.values.is_empty() || policy.values.contains(&amount),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Option<RequestPolicy> {
        let units = Quantity::from_units;
        let range = |min, max, step: Option<i64>| RequestPolicy {
            range: Some(ShareRange {
                min: Some(units(min)),
                max: Some(units(max)),
                step: step.map(units),
            }),
            ..RequestPolicy::default()
        };
        match text {
            "none" => None,
            "default 3" => {
                Some(RequestPolicy { default: Some(units(3)), ..RequestPolicy::default() })
            }
            "2..=10" => Some(range(2, 10, None)),
            "2..=10 by 4" => Some(range(2, 10, Some(4))),
            "2..=10 by 0" => Some(range(2, 10, Some(0))),
            "2,8" => {
                Some(RequestPolicy { values: vec![units(2), units(8)], ..RequestPolicy::default() })
            }
            _ => panic!("no such policy: {text}"),
        }
    }

    #[test]
    fn shares_follow_the_policy_of_the_device() {
        #[rustfmt::skip]
        let rows = [
            // rule 12: the request, rounded; the default; else the whole
            ("nothing asked",          "none",        None,      Some(16)),
            ("the default",            "default 3",   None,      Some(3)),
            ("what is asked",          "none",        Some(5),   Some(5)),
            ("raised to the least",    "2..=10",      Some(1),   Some(2)),
            ("inside the range",       "2..=10",      Some(5),   Some(5)),
            ("beyond the range",       "2..=10",      Some(11),  None),
            ("up to the next step",    "2..=10 by 4", Some(3),   Some(6)),
            ("on a step",              "2..=10 by 4", Some(6),   Some(6)),
            ("a step beyond the most", "2..=10 by 4", Some(11),  None),
            ("steps of nothing",       "2..=10 by 0", Some(3),   Some(3)),
            ("up to the next value",   "2,8",         Some(3),   Some(8)),
            ("beyond all values",      "2,8",         Some(9),   None),
            ("the whole is no value",  "2,8",         None,      None),
        ];
        for (case, text, requested, expected) in rows {
            let capacity = DeviceCapacity { value: Quantity::from_units(16), policy: policy(text) };
            let capacity = BTreeMap::from([("memory".to_owned(), capacity)]);
            let requests = requested
                .map(|requested| ("memory".to_owned(), Quantity::from_units(requested)))
                .into_iter()
                .collect();
            let expected = expected
                .map(|units| BTreeMap::from([("memory".to_owned(), Quantity::from_units(units))]));
            assert_eq!(share(&requests, &capacity), expected, "{case}");
        }
    }

    #[test]
    fn a_device_without_the_requested_capacity_is_rejected() {
        let requests = BTreeMap::from([("cores".to_owned(), Quantity::from_units(1))]);
        assert_eq!(share(&requests, &BTreeMap::new()), None);
    }
}
