//! Prices: cases UP-PR1 to UP-PR10 of spec 55 (rows $1 to $10 of spec 51 §8).

use super::*;
use crate::discovery::memory::MemoryPrices;
use crate::discovery::{GetProducts, Page};

/// Returns the time of the refreshes.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap()
}

fn spot(instance_type: &str, zone: &str, price: &str) -> SpotPrice {
    SpotPrice {
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        price: price.to_owned(),
        timestamp: Some(1_790_000_000),
    }
}

/// Returns prices whose spot price history is one page.
pub(crate) fn spot_page(entries: &[(&str, &str, &str)]) -> MemoryPrices {
    let prices = MemoryPrices::default();
    let entries = entries.iter().map(|(name, zone, price)| spot(name, zone, price));
    prices.spot_prices.set(Some(Page::last(entries.collect())));
    prices
}

fn table(region: &str, prices: &[(&str, f64)]) -> PriceTable {
    PriceTable {
        region: region.to_owned(),
        currency: Currency::of_region(region),
        prices: prices.iter().map(|(name, price)| ((*name).to_owned(), *price)).collect(),
    }
}

fn product(instance_type: &str, currency: &str, price: &str) -> String {
    serde_json::json!({
        "product": {"attributes": {"instanceType": instance_type, "regionCode": "us-west-2"}},
        "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {
            "unit": "Hrs", "pricePerUnit": {currency: price},
        }}}}},
    })
    .to_string()
}

/// Returns a book for a region that knows m5.large and m5.metal.
fn book(region: &str) -> PriceBook {
    let table = table(region, &[("m5.large", 0.096), ("m5.metal", 4.608)]);
    PriceBook::new(region, false, PriceList::from_table(&table))
}

/// Programs the answers for ordinary and bare-metal instance types.
fn answers(prices: &MemoryPrices, compute: Vec<String>, metal: Vec<String>) {
    prices.products.push(Page::last(compute));
    prices.products.push(Page::last(metal));
}

#[tokio::test]
async fn a_failed_refresh_keeps_the_prices() {
    let (book, prices) = (book("us-west-2"), MemoryPrices::default());
    let error = book.refresh(&prices, now()).await.unwrap_err().to_string();
    assert!(error.starts_with("updating pricing, "), "55/UP-PR1: {error}");
    assert!(error.contains("GetProducts") && error.contains("DescribeSpotPriceHistory"), "{error}");
    assert_eq!(book.current().on_demand("m5.large"), Some(0.096), "55/UP-PR1");
    assert_eq!(book.current().spot("m5.large", "us-west-2a"), Some(0.096), "55/UP-PR9");
    assert_eq!(book.current().version(), 0);
}

#[tokio::test]
async fn prices_are_in_the_currency_of_the_region() {
    let prices = MemoryPrices::default();
    let usd = |name| vec![product(name, "USD", "0.5")];
    answers(&prices, usd("m5.large"), usd("m5.metal"));
    let commercial = book("us-west-2");
    commercial.refresh_on_demand(&prices).await.unwrap();
    assert_eq!(commercial.current().on_demand("m5.large"), Some(0.5), "55/UP-PR2");

    let cny = |name| vec![product(name, "CNY", "3.5")];
    answers(&prices, cny("m5.large"), cny("m5.metal"));
    let china = book("cn-north-1");
    china.refresh_on_demand(&prices).await.unwrap();
    assert_eq!(china.current().on_demand("m5.large"), Some(3.5), "55/UP-PR2");
    assert_eq!(china.current().currency(), Currency::Cny, "55/UP-PR2");

    answers(&prices, usd("m5.large"), usd("m5.metal"));
    let error = china.refresh_on_demand(&prices).await.unwrap_err();
    assert_eq!(error, PriceError::NoOnDemandPrices, "55/UP-PR2: USD only");
    assert_eq!(china.current().on_demand("m5.large"), Some(3.5), "55/UP-PR2");
}

#[tokio::test]
async fn all_pages_are_merged() {
    let (book, prices) = (book("us-west-2"), MemoryPrices::default());
    let page = |name: &str, zone: &str| vec![spot(name, zone, "0.1")];
    let zone = "us-west-2a";
    prices.spot_prices.push_pages(vec![
        page("m5.large", zone),
        page("c5.large", zone),
        page("r5.large", zone),
    ]);
    book.refresh_spot(&prices, now()).await.unwrap();
    for name in ["m5.large", "c5.large", "r5.large"] {
        assert_eq!(book.current().spot(name, zone), Some(0.1), "55/UP-PR3: {name}");
    }
    assert_eq!(prices.spot_prices.calls(), (3, 0), "55/UP-PR3");
}

#[tokio::test]
async fn an_answer_without_a_type_keeps_its_price() {
    let (book, prices) = (book("us-west-2"), MemoryPrices::default());
    let two = vec![product("m5.large", "USD", "0.1"), product("c99.large", "USD", "0.2")];
    answers(&prices, two, vec![product("m5.metal", "USD", "5")]);
    book.refresh_on_demand(&prices).await.unwrap();
    let bad =
        ["not json".to_owned(), product("m5.large", "USD", "0"), product("m5.large", "USD", "x")];
    let second = bad.into_iter().chain([product("m5.large", "USD", "0.3")]).collect();
    answers(
        &prices,
        second,
        vec![product("m5.large", "USD", "NaN"), product("m5.metal", "USD", "6")],
    );
    book.refresh_on_demand(&prices).await.unwrap();
    let current = book.current();
    assert_eq!(current.on_demand("c99.large"), Some(0.2), "55/UP-PR4");
    assert_eq!(current.on_demand("m5.large"), Some(0.3), "51 §8: unusable prices are skipped");
    assert_eq!(current.on_demand("m5.metal"), Some(6.0));

    answers(&prices, vec![product("m5.large", "USD", "9")], Vec::new());
    let error = book.refresh_on_demand(&prices).await.unwrap_err();
    assert_eq!(error, PriceError::NoOnDemandPrices, "51 §8: either answer is empty");
    assert_eq!(book.current().on_demand("m5.large"), Some(0.3), "51 §8: nothing is merged");
}

#[tokio::test]
async fn isolated_and_government_regions_have_no_pricing_api() {
    let prices = spot_page(&[("m5.large", "us-west-2a", "0.04")]);
    let list = PriceList::from_table(&table("us-west-2", &[("m5.large", 0.096)]));
    let isolated = PriceBook::new("us-west-2", true, list);
    isolated.refresh(&prices, now()).await.unwrap();
    assert_eq!(prices.products.calls(), (0, 0), "55/UP-PR5");
    assert_eq!(isolated.current().spot("m5.large", "us-west-2a"), Some(0.04), "55/UP-PR5");

    let government = book("us-gov-east-1");
    government.refresh(&prices, now()).await.unwrap();
    assert_eq!(prices.products.calls(), (0, 0), "55/UP-PR6");
    assert_eq!(government.current().on_demand("m5.large"), Some(0.096), "55/UP-PR6");
}

#[test]
fn a_region_without_a_table_gets_that_of_us_east_1() {
    let tables =
        [table("us-east-1", &[("m5.large", 0.1)]), table("us-gov-east-1", &[("m5.large", 0.2)])];
    let price = |region: &str| {
        PriceList::from_table(table_for_region(&tables, region).unwrap()).on_demand("m5.large")
    };
    assert_eq!(price("us-gov-east-1"), Some(0.2), "55/UP-PR6");
    assert_eq!(price("mars-north-1"), Some(0.1), "55/UP-PR7");
    assert!(table_for_region(&[], "us-east-1").is_none());
}

#[tokio::test]
async fn spot_prices_are_those_of_the_zone() {
    let book = book("us-west-2");
    let prices =
        spot_page(&[("m5.large", "us-west-2a", "0.05"), ("m5.large", "us-west-2a", "0.04")]);
    book.refresh_spot(&prices, now()).await.unwrap();
    let current = book.current();
    assert_eq!(current.spot("m5.large", "us-west-2a"), Some(0.04), "51 §8: the last entry wins");
    assert_eq!(current.spot("m5.large", "us-west-2b"), None, "55/UP-PR8");
    assert_eq!(current.spot("m5.metal", "us-west-2a"), None, "55/UP-PR8");

    let second = spot_page(&[("m5.large", "us-west-2b", "0.06")]);
    book.refresh_spot(&second, now()).await.unwrap();
    let current = book.current();
    assert_eq!(current.spot("m5.large", "us-west-2a"), Some(0.04), "51 §8: old zones are kept");
    assert_eq!(current.spot("m5.large", "us-west-2b"), Some(0.06));
}

#[tokio::test]
async fn unusable_spot_prices_are_an_error() {
    let book = book("us-west-2");
    let prices = spot_page(&[("m5.large", "us-west-2a", "NaN"), ("m5.large", "us-west-2b", "inf")]);
    let mut untimed = spot("m5.large", "us-west-2c", "0.1");
    untimed.timestamp = None;
    let odd = ["-1", "x"].map(|price| spot("m5.large", "us-west-2d", price));
    prices.spot_prices.push(Page::last(vec![untimed, odd[0].clone(), odd[1].clone()]));
    for _ in 0..2 {
        let error = book.refresh_spot(&prices, now()).await.unwrap_err();
        assert_eq!(error.to_string(), "no spot pricing found", "51 §8");
    }
    assert!(!book.current().is_spot_updated());
    assert_eq!(book.current().spot("m5.large", "us-west-2a"), Some(0.096), "55/UP-PR9");
}

#[tokio::test]
async fn requests_are_those_of_the_specification() {
    let (book, prices) = (book("us-west-2"), spot_page(&[("m5.large", "us-west-2a", "0.04")]));
    let _ = book.refresh(&prices, now()).await;
    let request = &prices.spot_prices.inputs()[0];
    assert_eq!(
        request.product_descriptions,
        ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        "55/UP-PR10"
    );
    assert_eq!((request.max_results, request.start_time), (2000, now()), "55/UP-PR10");

    let requests = prices.products.inputs();
    let value = |request: &GetProducts, name: &str| {
        request.filters.iter().find(|filter| filter.name == name).unwrap().values.join(",")
    };
    let families = ["Compute Instance", "Compute Instance (bare metal)"];
    for ((request, tenancy), family) in requests.iter().zip(["Shared", "Dedicated"]).zip(families) {
        assert_eq!(value(request, "tenancy"), tenancy, "51 §8");
        assert_eq!(value(request, "productFamily"), family, "51 §8");
        assert_eq!(value(request, "regionCode"), "us-west-2", "51 §8");
        assert_eq!((request.filters.len(), request.max_results), (8, 100), "51 §8");
    }
    assert_eq!(requests.len(), 2);
}

#[test]
fn the_pricing_api_has_four_endpoints() {
    let cases = [
        ("ap-southeast-2", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("eu-west-1", "eu-central-1"),
        ("us-west-2", "us-east-1"),
        ("sa-east-1", "us-east-1"),
    ];
    for (region, endpoint) in cases {
        assert_eq!(pricing_endpoint_region(region), endpoint, "51 §8: {region}");
    }
}
