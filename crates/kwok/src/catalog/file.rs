//! Reads the file format of KWOK instance types (spec 40 §10.2).
//!
//! A JSON array. Field names are case-insensitive, as in Go, and null counts as absent. A file with
//! any error is rejected as a whole, with the place of the error.

use std::sync::Arc;

use karpenter_api::grammar::{Quantity as QuantityText, QuantityFormat};
use karpenter_api::labels;
use karpenter_api::resources::{CPU, MEMORY};
use karpenter_core::catalog::{InstanceType, Offering};
use karpenter_core::requirement::{Aliases, Operator, Requirement, RequirementItem, Requirements};
use karpenter_core::resources::{Notation, Quantity, Resources};
use serde_json::Value;

use super::{InstanceTypeSpec, aliases};

/// Why a file of instance types cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// It is not JSON.
    #[error("instance types are not JSON: {0}")]
    Syntax(String),
    /// Something in it does not mean anything.
    #[error("instance types: {place}: {problem}")]
    Content {
        /// Where, such as `[3] (a-1x).offerings[0].Price`.
        place: String,
        /// The problem at that place.
        problem: String,
    },
}

/// Reads the instance types of a file.
pub fn from_file(bytes: &[u8]) -> Result<Vec<Arc<InstanceType>>, CatalogError> {
    let root: Value =
        serde_json::from_slice(bytes).map_err(|error| CatalogError::Syntax(error.to_string()))?;
    let root = LocatedValue { path: String::new(), value: &root };
    let aliases = aliases();
    root.list()?.iter().map(|place| Ok(Arc::new(instance_type(place, &aliases)?))).collect()
}

fn instance_type(
    place: &LocatedValue<'_>,
    aliases: &Aliases,
) -> Result<InstanceType, CatalogError> {
    let name = place.field("name")?.string()?;
    // From here on errors also name the instance type.
    let place = LocatedValue { path: format!("{} ({name})", place.path), value: place.value };
    let (resources, cpu, memory) = resources(&place.field("resources")?)?;
    let mut offerings = Vec::new();
    let (mut zones, mut capacity_types) = (Vec::new(), Vec::new());
    for place in place.field("offerings")?.list()? {
        let items = requirements(&place.field("Requirements")?)?;
        zones.extend(first_values(&items, labels::ZONE));
        capacity_types.extend(first_values(&items, labels::CAPACITY_TYPE));
        offerings.push(offering(&place, &items, aliases)?);
    }
    let description = InstanceTypeSpec {
        architecture: place.field("architecture")?.string()?,
        operating_systems: place.field("operatingSystems")?.strings()?,
        zones,
        capacity_types,
        name,
        cpu,
        memory,
        resources,
        offerings,
    };
    Ok(description.into_instance_type())
}

/// The values that the first requirement of the key lists. Its operator does not count, and an old
/// spelling of the key is not seen, as upstream has it.
fn first_values(items: &[RequirementItem], key: &str) -> Vec<String> {
    items.iter().find(|item| item.key == key).map(|item| item.values.clone()).unwrap_or_default()
}

fn offering(
    place: &LocatedValue<'_>,
    items: &[RequirementItem],
    aliases: &Aliases,
) -> Result<Offering, CatalogError> {
    let mut requirements = Requirements::default();
    for item in items {
        let set = Requirement::from_item(item, aliases)
            .map_err(|error| place.problem(error.to_string()))?;
        requirements.add(set);
    }
    // The value must be valid and is ignored: upstream makes every offering of a file available.
    place.field("Available")?.boolean()?;
    let price = place.field("Price")?.number()?;
    let reservation_capacity = place.field("ReservationCapacity")?.count()?;
    Ok(Offering { reservation_capacity, ..Offering::new(requirements, price) })
}

fn requirements(place: &LocatedValue<'_>) -> Result<Vec<RequirementItem>, CatalogError> {
    place.list()?.iter().map(requirement).collect()
}

fn requirement(place: &LocatedValue<'_>) -> Result<RequirementItem, CatalogError> {
    let operator = place.field("operator")?;
    let name = operator.string()?;
    let Some(operator) = Operator::from_name(&name) else {
        return Err(operator.problem(format!("{name:?} is not an operator")));
    };
    Ok(RequirementItem {
        key: place.field("key")?.string()?,
        operator,
        values: place.field("values")?.strings()?,
        min_values: None,
    })
}

/// The resources, and the canonical texts of cpu and memory.
fn resources(place: &LocatedValue<'_>) -> Result<(Resources, String, String), CatalogError> {
    let mut resources = Resources::default();
    let (mut cpu, mut memory) = (String::new(), String::new());
    for (name, place) in place.entries()? {
        let quantity: QuantityText = match place.value {
            Value::Null => QuantityText::from(0),
            value => serde_json::from_value(value.clone())
                .map_err(|_| place.problem("expected a quantity"))?,
        };
        let amount = quantity.value().map_err(|error| place.problem(error.to_string()))?;
        let notation = match amount.format() {
            QuantityFormat::Decimal => Notation::DecimalSi,
            QuantityFormat::Binary => Notation::BinarySi,
            QuantityFormat::Exponent => Notation::DecimalExponent,
        };
        match name {
            CPU => cpu = quantity.canonical().into_owned(),
            MEMORY => memory = quantity.canonical().into_owned(),
            _ => {}
        }
        resources.set(name, Quantity::from_nanos(amount.as_nanos()).with_notation(notation));
    }
    Ok((resources, cpu, memory))
}

/// A JSON value with its path in the file.
struct LocatedValue<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> LocatedValue<'a> {
    fn problem(&self, problem: impl Into<String>) -> CatalogError {
        let place = if self.path.is_empty() { "the document" } else { &self.path };
        CatalogError::Content { place: place.to_owned(), problem: problem.into() }
    }

    /// The field of that name in any case; the last one if there are several.
    fn field(&self, name: &str) -> Result<Self, CatalogError> {
        const ABSENT: &Value = &Value::Null;
        let value = match self.value {
            Value::Object(fields) => {
                let mut named = fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
                named.next_back().map_or(ABSENT, |(_, value)| value)
            }
            Value::Null => ABSENT,
            _ => return Err(self.problem("expected an object")),
        };
        Ok(Self { path: format!("{}.{name}", self.path), value })
    }

    fn list(&self) -> Result<Vec<Self>, CatalogError> {
        let item = |(index, value)| Self { path: format!("{}[{index}]", self.path), value };
        match self.value {
            Value::Array(items) => Ok(items.iter().enumerate().map(item).collect()),
            Value::Null => Ok(Vec::new()),
            _ => Err(self.problem("expected a list")),
        }
    }

    fn entries(&self) -> Result<Vec<(&'a str, Self)>, CatalogError> {
        let entry = |(key, value): (&'a String, &'a Value)| {
            (key.as_str(), Self { path: format!("{}.{key}", self.path), value })
        };
        match self.value {
            Value::Object(fields) => Ok(fields.iter().map(entry).collect()),
            Value::Null => Ok(Vec::new()),
            _ => Err(self.problem("expected an object")),
        }
    }

    fn string(&self) -> Result<String, CatalogError> {
        match self.value {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(String::new()),
            _ => Err(self.problem("expected a text")),
        }
    }

    fn strings(&self) -> Result<Vec<String>, CatalogError> {
        self.list()?.iter().map(Self::string).collect()
    }

    fn boolean(&self) -> Result<bool, CatalogError> {
        match self.value {
            Value::Bool(switch) => Ok(*switch),
            Value::Null => Ok(false),
            _ => Err(self.problem("expected true or false")),
        }
    }

    fn number(&self) -> Result<f64, CatalogError> {
        match self.value {
            Value::Null => Ok(0.0),
            value => value.as_f64().ok_or_else(|| self.problem("expected a number")),
        }
    }

    /// A count. Less than nothing is nothing.
    fn count(&self) -> Result<u32, CatalogError> {
        match self.value {
            Value::Null => Ok(0),
            value => match value.as_i64() {
                Some(count) => Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
                None => Err(self.problem("expected an integer")),
            },
        }
    }
}
