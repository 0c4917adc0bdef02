//! minValues: how many distinct values the candidate instance types must offer (spec 10 §10.5,
//! spec 45 §11.3).

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

use crate::requirement::{Requirement, Requirements};

/// Returns how many instance types, taken in this order, reach every minValues.
///
/// A value counts for a key if an instance type lists it and the (narrowed) requirement allows it:
/// a zone pinned by a volume counts once, whatever zones the type offers. The order is the
/// caller's, normally the price. Without any minValues the result is 0; an empty list of instance
/// types is no error here, since the caller reports it.
pub fn required_type_count<'a>(
    requirements: &Requirements,
    instance_types: impl IntoIterator<Item = &'a Requirements>,
) -> Result<usize, MinValuesUnmet> {
    let flexible = || requirements.iter().filter(|r| r.min_values().is_some());
    if flexible().next().is_none() {
        return Ok(0);
    }
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut unmet = BTreeMap::new();
    let mut taken = 0;
    for instance_type in instance_types {
        taken += 1;
        unmet.clear();
        for requirement in flexible() {
            let values = seen.entry(requirement.key()).or_default();
            values.extend(offered(instance_type, requirement));
            if requirement.min_values().is_some_and(|min| values.len() < min as usize) {
                unmet.insert(requirement.key().to_owned(), values.len());
            }
        }
        if unmet.is_empty() {
            return Ok(taken);
        }
    }
    if unmet.is_empty() { Ok(taken) } else { Err(MinValuesUnmet { achieved: unmet }) }
}

/// Returns the values of a key that an instance type lists and the requirement allows.
///
/// Values that a complement excludes are not offered.
fn offered<'a>(
    instance_type: &'a Requirements,
    requirement: &Requirement,
) -> impl Iterator<Item = &'a str> {
    instance_type
        .get(requirement.key())
        .filter(|offer| !offer.is_complement())
        .into_iter()
        .flat_map(Requirement::values)
        .map(String::as_str)
        .filter(|value| requirement.has(value))
}

/// The instance types offer too few distinct values for at least one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinValuesUnmet {
    /// By key that falls short: how many values there are.
    pub achieved: BTreeMap<String, usize>,
}

impl MinValuesUnmet {
    /// Returns the requirements with every unmet minValues lowered to the available number.
    ///
    /// The policy BestEffort goes on with these.
    pub fn relaxed(&self, requirements: &Requirements) -> Requirements {
        requirements
            .iter()
            .map(|requirement| {
                let achieved = self.achieved.get(requirement.key());
                let lowered = achieved.and_then(|&count| u32::try_from(count).ok());
                requirement.clone().with_min_values(lowered.or(requirement.min_values()))
            })
            .collect()
    }
}

impl fmt::Display for MinValuesUnmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.achieved.keys().map(String::as_str).collect();
        write!(f, "minValues requirement is not met for label(s) (label(s)=[{}])", keys.join(" "))
    }
}

impl Error for MinValuesUnmet {}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "node.kubernetes.io/instance-type";
    const FAMILY: &str = "karpenter.kwok.sh/instance-family";
    const ZONE: &str = "topology.kubernetes.io/zone";

    /// `c4.large` of family `c4`, in the given zones.
    fn instance_type(name: &str, zones: &[&str]) -> Requirements {
        let family = name.split('.').next().unwrap();
        [
            Requirement::in_values(TYPE, [name]),
            Requirement::in_values(FAMILY, [family]),
            Requirement::in_values(ZONE, zones.iter().copied()),
        ]
        .into_iter()
        .collect()
    }

    fn exists(key: &str, min_values: u32) -> Requirement {
        Requirement::exists(key).with_min_values(Some(min_values))
    }

    #[test]
    fn the_smallest_prefix_that_reaches_every_min_values_is_needed() {
        const UNMET: &str = "minValues requirement is not met for label(s) ";
        struct Case(&'static str, Vec<Requirement>, &'static [&'static str], Result<usize, String>);
        #[rustfmt::skip]
        let cases = [
            Case("10/RQ-24 40/CP-06", vec![exists(TYPE, 3), exists(FAMILY, 3)], &["c4.large", "c5.xlarge", "m4.2xlarge"], Ok(3)),
            Case("10/RQ-25",       vec![exists(TYPE, 3), exists(FAMILY, 3)], &["c4.large", "c4.xlarge", "c5.2xlarge"],
                Err(format!("{UNMET}(label(s)=[{FAMILY}])"))),
            Case("both fall short", vec![exists(TYPE, 3), exists(FAMILY, 2)], &["c4.large", "c4.xlarge"],
                Err(format!("{UNMET}(label(s)=[{FAMILY} {TYPE}])"))),
            Case("prefix",         vec![exists(FAMILY, 2)], &["c4.large", "c4.xlarge", "c5.large", "m4.large"], Ok(3)),
            Case("no minValues",   vec![Requirement::exists(TYPE)], &["c4.large"], Ok(0)),
            Case("no types",       vec![exists(TYPE, 3)], &[], Ok(0)),
            Case("not allowed",    vec![Requirement::in_values(TYPE, ["c4.large"]).with_min_values(Some(2))], &["c4.large", "c5.large"],
                Err(format!("{UNMET}(label(s)=[{TYPE}])"))),
            Case("unknown key",    vec![exists("team", 1)], &["c4.large"], Err(format!("{UNMET}(label(s)=[team])"))),
        ];
        for Case(case, requirements, names, expected) in cases {
            let requirements = requirements.into_iter().collect();
            let types: Vec<_> = names.iter().map(|name| instance_type(name, &["a"])).collect();
            let got = required_type_count(&requirements, &types).map_err(|unmet| unmet.to_string());
            assert_eq!(got, expected, "{case}: {requirements} on {names:?}");
        }
    }

    #[test]
    fn unmet_min_values_report_the_number_of_values() {
        let types = ["c4.large", "c4.xlarge", "c5.2xlarge"].map(|name| instance_type(name, &["a"]));
        let unmet =
            required_type_count(&[exists(FAMILY, 3)].into_iter().collect(), &types).unwrap_err();
        assert_eq!(unmet.achieved, BTreeMap::from([(FAMILY.to_owned(), 2)]), "40/CP-06");
    }

    #[test]
    fn excluded_values_of_an_instance_type_are_not_offered() {
        let odd: Requirements = [Requirement::not_in(ZONE, ["a", "b"])].into_iter().collect();
        let unmet =
            required_type_count(&[exists(ZONE, 1)].into_iter().collect(), [&odd]).unwrap_err();
        assert_eq!(unmet.achieved, BTreeMap::from([(ZONE.to_owned(), 0)]));
    }

    #[test]
    fn a_pinned_zone_counts_once_and_best_effort_lowers_to_it() {
        let in_three_zones = instance_type("c4.large", &["zone-1", "zone-2", "zone-3"]);
        let open: Requirements = [exists(ZONE, 3)].into_iter().collect();
        assert_eq!(required_type_count(&open, [&in_three_zones]), Ok(1));

        let mut pinned = open;
        pinned.add(Requirement::in_values(ZONE, ["zone-1"]));
        let unmet = required_type_count(&pinned, [&in_three_zones]).unwrap_err();
        let relaxed = unmet.relaxed(&pinned);
        assert_eq!(relaxed.to_string(), format!("{ZONE} In [zone-1] minValues 1"));
        assert_eq!(required_type_count(&relaxed, [&in_three_zones]), Ok(1));
    }
}
