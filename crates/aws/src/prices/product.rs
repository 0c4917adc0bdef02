//! Requests to the pricing API, and the prices in its answers (spec 51 §8).

use serde::Deserialize;
use std::collections::BTreeMap;

use super::is_usable_on_demand;
use crate::discovery::{Currency, Filter, GetProducts};

/// Returns the request for the prices of ordinary instance types.
pub(super) fn compute_products(region: &str) -> GetProducts {
    products(region, "Shared", "Compute Instance")
}

/// Returns the request for the prices of bare-metal instance types.
pub(super) fn bare_metal_products(region: &str) -> GetProducts {
    products(region, "Dedicated", "Compute Instance (bare metal)")
}

fn products(region: &str, tenancy: &str, family: &str) -> GetProducts {
    let filters = [
        ("regionCode", region),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ];
    GetProducts {
        service_code: "AmazonEC2".to_owned(),
        filters: filters.into_iter().map(|(name, value)| Filter::new(name, [value])).collect(),
        max_results: 100,
        next_token: None,
    }
}

/// The parts of a product that matter.
#[derive(Deserialize)]
struct Product {
    product: ProductAttributes,
    terms: Terms,
}

#[derive(Deserialize)]
struct ProductAttributes {
    attributes: Attributes,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(rename = "instanceType")]
    instance_type: String,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand")]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
struct Term {
    #[serde(rename = "priceDimensions")]
    dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
struct Dimension {
    #[serde(rename = "pricePerUnit")]
    price: BTreeMap<String, String>,
}

/// Returns the instance type and the price of a product; the last usable price wins.
pub(super) fn product_price(text: &str, currency: Currency) -> Option<(String, f64)> {
    let product: Product = serde_json::from_str(text).ok()?;
    let dimensions = product.terms.on_demand.values().flat_map(|term| term.dimensions.values());
    let mut prices =
        dimensions.filter_map(|one| one.price.get(currency.code())?.parse::<f64>().ok());
    let price = prices.rfind(|price| is_usable_on_demand(*price))?;
    Some((product.product.attributes.instance_type, price))
}
