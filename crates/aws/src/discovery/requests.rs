//! The requests of the ports, and the page that answers each one.

use jiff::Timestamp;

/// One page of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The entries of this page.
    pub items: Vec<T>,
    /// The token of the next page, if there is one.
    pub next_token: Option<String>,
}

impl<T> Page<T> {
    /// Returns the only page of an answer.
    pub fn last(items: Vec<T>) -> Self {
        Self { items, next_token: None }
    }
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self::last(Vec::new())
    }
}

/// A filter of a request: any of the values matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The name of the filter.
    pub name: String,
    /// The accepted values.
    pub values: Vec<String>,
}

impl Filter {
    /// Returns a filter on a name.
    pub fn new<V: Into<String>>(name: &str, values: impl IntoIterator<Item = V>) -> Self {
        Self { name: name.to_owned(), values: values.into_iter().map(Into::into).collect() }
    }
}

/// `ec2:DescribeInstanceTypes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeInstanceTypes {
    /// The filters, all of which must match.
    pub filters: Vec<Filter>,
    /// The size of a page.
    pub max_results: u32,
    /// The token of the page to return.
    pub next_token: Option<String>,
}

/// `ec2:DescribeInstanceTypeOfferings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeInstanceTypeOfferings {
    /// What an offering is located in: `availability-zone`.
    pub location_type: String,
    /// The size of a page.
    pub max_results: u32,
    /// The token of the page to return.
    pub next_token: Option<String>,
}

/// `ec2:DescribeSpotPriceHistory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeSpotPriceHistory {
    /// The products whose prices to return.
    pub product_descriptions: Vec<String>,
    /// The time from which on prices are returned.
    pub start_time: Timestamp,
    /// The size of a page.
    pub max_results: u32,
    /// The token of the page to return.
    pub next_token: Option<String>,
}

/// `pricing:GetProducts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetProducts {
    /// The service whose products to return.
    pub service_code: String,
    /// The filters of kind TERM_MATCH, all of which must match.
    pub filters: Vec<Filter>,
    /// The size of a page.
    pub max_results: u32,
    /// The token of the page to return.
    pub next_token: Option<String>,
}
