//! Quantities and lists of them.

use std::collections::BTreeMap;

pub(super) use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use karpenter_api::grammar::{Amount, Quantity as FieldQuantity, QuantityError};
use karpenter_core::resources::{Quantity, Resources};

/// Returns the resources of a list. Invalid quantities are left out, with a problem that names
/// `place`.
pub(super) fn resources(
    list: Option<&BTreeMap<String, WireQuantity>>,
    place: &str,
    problems: &mut Vec<String>,
) -> Resources {
    collect(list.into_iter().flatten().map(|(name, q)| (name, parse(q))), place, problems)
}

/// Returns the quantities of a map; invalid ones are left out, with a problem.
pub(super) fn quantity_map(
    list: Option<&BTreeMap<String, WireQuantity>>,
    place: &str,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Quantity> {
    let resources = resources(list, place, problems);
    resources.iter().map(|(name, quantity)| (name.to_owned(), quantity)).collect()
}

/// Parses one quantity; none if it is invalid, with a problem.
pub(super) fn read_quantity(
    wire: &WireQuantity,
    place: &str,
    problems: &mut Vec<String>,
) -> Option<Quantity> {
    let amount = parse(wire).map_err(|error| problems.push(format!("{place}: {error}")));
    amount.ok().map(Quantity::from)
}

fn parse(wire: &WireQuantity) -> Result<Amount, QuantityError> {
    wire.0.trim().parse()
}

/// The resources of a list in one of our own kinds.
pub(super) fn field_resources(
    list: Option<&BTreeMap<String, FieldQuantity>>,
    place: &str,
    problems: &mut Vec<String>,
) -> Resources {
    collect(list.into_iter().flatten().map(|(name, q)| (name, q.value())), place, problems)
}

fn collect<'a>(
    entries: impl Iterator<Item = (&'a String, Result<Amount, QuantityError>)>,
    place: &str,
    problems: &mut Vec<String>,
) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in entries {
        match amount {
            Ok(amount) => resources.set(name, amount.into()),
            Err(error) => problems.push(format!("{place}[{name}]: {error}")),
        }
    }
    resources
}

/// Returns requests, which must not be negative: a negative one would free capacity on its node.
pub(super) fn requests(
    list: Option<&BTreeMap<String, WireQuantity>>,
    place: &str,
    problems: &mut Vec<String>,
) -> Resources {
    let mut requests = resources(list, place, problems);
    let negative: Vec<String> = requests
        .iter()
        .filter(|(_, quantity)| *quantity < Quantity::ZERO)
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in negative {
        requests.set(&name, Quantity::ZERO);
        problems.push(format!("{place}[{name}]: must not be negative"));
    }
    requests
}
