//! Finds problems in instance types that were read without errors.
//!
//! The provider itself accepts them as upstream does; `karpenter plan` reports them.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::catalog::InstanceType;
use karpenter_core::resources::Quantity;

/// A problem in a list of instance types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogProblem {
    /// Where, such as `[3] (a-1x).offerings[0].Price`; empty for the whole list.
    pub place: String,
    /// The problem at that place.
    pub problem: String,
    /// What to do about it.
    pub fix: &'static str,
}

/// Returns the first problem of a list of instance types.
pub fn first_problem(types: &[Arc<InstanceType>]) -> Option<CatalogProblem> {
    if types.is_empty() {
        return Some(CatalogProblem {
            place: String::new(),
            problem: "the list is empty, so nothing could be launched".to_owned(),
            fix: "write at least one type into it",
        });
    }
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    types.iter().enumerate().find_map(|(index, instance_type)| {
        let first = *names.entry(&instance_type.name).or_insert(index);
        type_problem(index, first, instance_type)
    })
}

fn type_problem(
    index: usize,
    first: usize,
    instance_type: &InstanceType,
) -> Option<CatalogProblem> {
    let name = &instance_type.name;
    if name.is_empty() {
        let problem = "a type needs a name".to_owned();
        return Some(CatalogProblem {
            place: format!("[{index}].name"),
            problem,
            fix: "give it one",
        });
    }
    let place = format!("[{index}] ({name})");
    if first != index {
        let problem = format!("the name is taken by [{first}]");
        return Some(CatalogProblem {
            place: place + ".name",
            problem,
            fix: "give each type its own name",
        });
    }
    let negative = instance_type.capacity.iter().find(|(_, amount)| *amount < Quantity::ZERO);
    if let Some((resource, _)) = negative {
        let place = format!("{place}.resources.{resource}");
        let problem = "must not be negative".to_owned();
        return Some(CatalogProblem { place, problem, fix: "write how much the type has" });
    }
    let is_price = |price: f64| price.is_finite() && price >= 0.0;
    let prices = instance_type.offerings.iter().map(|offering| offering.price);
    let (number, price) = prices.enumerate().find(|(_, price)| !is_price(*price))?;
    Some(CatalogProblem {
        place: format!("{place}.offerings[{number}].Price"),
        problem: format!("{price} is not a price"),
        fix: "write US dollars per hour, 0 or more",
    })
}

#[cfg(test)]
mod tests {
    use super::super::built_in;
    use super::*;

    /// Returns the place and problem of the built-in list after a change.
    #[track_caller]
    fn problem_of(change: impl FnOnce(&mut Vec<InstanceType>)) -> Option<(String, String)> {
        let types = built_in();
        let mut types: Vec<_> = types[..3].iter().map(|it| InstanceType::clone(it)).collect();
        change(&mut types);
        let types: Vec<_> = types.into_iter().map(Arc::new).collect();
        first_problem(&types).map(|CatalogProblem { place, problem, .. }| (place, problem))
    }

    #[track_caller]
    fn check(place: &str, problem: &str, change: impl FnOnce(&mut Vec<InstanceType>)) {
        assert_eq!(problem_of(change), Some((place.to_owned(), problem.to_owned())));
    }

    #[test]
    fn valid_instance_types_have_no_problem() {
        assert_eq!(problem_of(|_| {}), None);
        assert_eq!(first_problem(&built_in()), None);
        assert_eq!(
            problem_of(|types| Arc::make_mut(&mut types[0].offerings)[0].price = 0.0),
            None,
            "it may be free"
        );
    }

    #[test]
    fn instance_type_problems_are_reported_with_their_place() {
        check("", "the list is empty, so nothing could be launched", Vec::clear);
        check("[1].name", "a type needs a name", |types| types[1].name.clear());
        check("[2] (c-1x-amd64-linux).name", "the name is taken by [0]", |types| {
            types[2].name = types[0].name.clone();
        });
        for (price, problem) in [
            (-1.5, "-1.5 is not a price"),
            (f64::INFINITY, "inf is not a price"),
            (f64::NAN, "NaN is not a price"),
        ] {
            check("[0] (c-1x-amd64-linux).offerings[2].Price", problem, |types| {
                Arc::make_mut(&mut types[0].offerings)[2].price = price;
            });
        }
        check("[0] (c-1x-amd64-linux).resources.cpu", "must not be negative", |types| {
            types[0].capacity.set("cpu", Quantity::from_units(-1));
        });
    }
}
