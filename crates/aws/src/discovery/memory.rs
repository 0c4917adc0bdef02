//! Programmable in-memory ports for tests and offline commands (spec 51 §15.2).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::ready;

use super::{
    CallError, CallFuture, CallResult, DescribeInstanceTypeOfferings, DescribeInstanceTypes,
    DescribeSpotPriceHistory, Ec2Types, Filter, GetProducts, InstanceTypeInfo, OfferedZones, Page,
    Prices, SpotPrice, TypeOffering,
};

/// The most inputs that a [`Programmable`] remembers.
const INPUTS_MAX: usize = 10_000;

/// An operation with programmed answers, which records its inputs.
///
/// A call takes the first of: a programmed error, a queued output, the fixed output, the default
/// that its port computes.
pub struct Programmable<I, O> {
    state: Mutex<State<I, O>>,
}

struct State<I, O> {
    inputs: Vec<I>,
    errors: VecDeque<CallError>,
    lasting_error: Option<CallError>,
    queue: VecDeque<O>,
    output: Option<O>,
    successful_calls: usize,
    failed_calls: usize,
}

impl<I, O> Default for Programmable<I, O> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                inputs: Vec::new(),
                errors: VecDeque::new(),
                lasting_error: None,
                queue: VecDeque::new(),
                output: None,
                successful_calls: 0,
                failed_calls: 0,
            }),
        }
    }
}

impl<I: Clone, O: Clone> Programmable<I, O> {
    /// Lets the next `times` calls fail.
    pub fn fail(&self, error: &CallError, times: usize) {
        self.lock().errors.extend(std::iter::repeat_n(error.clone(), times));
    }

    /// Lets every call fail, or none any more.
    pub fn fail_always(&self, error: Option<CallError>) {
        self.lock().lasting_error = error;
    }

    /// Answers one call with this output, after those that are queued.
    pub fn push(&self, output: O) {
        self.lock().queue.push_back(output);
    }

    /// Answers every call with this output, or with the default again.
    pub fn set(&self, output: Option<O>) {
        self.lock().output = output;
    }

    /// Returns the inputs of all calls.
    pub fn inputs(&self) -> Vec<I> {
        self.lock().inputs.clone()
    }

    /// Returns how many calls succeeded and how many failed.
    pub fn calls(&self) -> (usize, usize) {
        let state = self.lock();
        (state.successful_calls, state.failed_calls)
    }

    /// Answers a call.
    pub fn call(&self, input: &I, default: impl FnOnce(&I) -> CallResult<O>) -> CallResult<O> {
        let mut state = self.lock();
        if state.inputs.len() < INPUTS_MAX {
            state.inputs.push(input.clone());
        }
        let error = state.errors.pop_front().or_else(|| state.lasting_error.clone());
        let result = match error {
            Some(error) => Err(error),
            None => match state.queue.pop_front().or_else(|| state.output.clone()) {
                Some(output) => Ok(output),
                None => default(input),
            },
        };
        match &result {
            Ok(_) => state.successful_calls += 1,
            Err(_) => state.failed_calls += 1,
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<I, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I, T: Clone> Programmable<I, Page<T>>
where
    I: Clone,
{
    /// Answers the next calls with these pages; each but the last one has a token of its own.
    pub fn push_pages(&self, pages: Vec<Vec<T>>) {
        let count = pages.len();
        for (number, items) in pages.into_iter().enumerate() {
            let next_token = (number + 1 < count).then(|| format!("page-{}", number + 1));
            self.push(Page { items, next_token });
        }
    }
}

impl<I, O> fmt::Debug for Programmable<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Programmable")
    }
}

/// EC2's instance types and offerings in memory.
#[derive(Debug, Default)]
pub struct MemoryEc2 {
    /// Programs `DescribeInstanceTypes`; by default it returns pages of `types`.
    pub instance_types: Programmable<DescribeInstanceTypes, Page<InstanceTypeInfo>>,
    /// Programs `DescribeInstanceTypeOfferings`; by default it returns pages of `zones`.
    pub offerings: Programmable<DescribeInstanceTypeOfferings, Page<TypeOffering>>,
    data: Mutex<(Vec<InstanceTypeInfo>, OfferedZones)>,
}

impl MemoryEc2 {
    /// Returns an EC2 that sells these instance types in these zones.
    pub fn new(types: Vec<InstanceTypeInfo>, zones: OfferedZones) -> Self {
        Self { data: Mutex::new((types, zones)), ..Self::default() }
    }

    /// Replaces the instance types and their zones.
    pub fn replace(&self, types: Vec<InstanceTypeInfo>, zones: OfferedZones) {
        *self.data.lock().unwrap_or_else(PoisonError::into_inner) = (types, zones);
    }

    fn data(&self) -> MutexGuard<'_, (Vec<InstanceTypeInfo>, OfferedZones)> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ec2Types for MemoryEc2 {
    fn describe_instance_types<'a>(
        &'a self,
        request: &'a DescribeInstanceTypes,
    ) -> CallFuture<'a, Page<InstanceTypeInfo>> {
        Box::pin(ready(self.instance_types.call(request, |request| {
            let data = self.data();
            let matching = data.0.iter().filter(|known| matches(known, &request.filters));
            let matching: Vec<_> = matching.cloned().collect();
            Ok(page(&matching, request.max_results, request.next_token.as_deref()))
        })))
    }

    fn describe_instance_type_offerings<'a>(
        &'a self,
        request: &'a DescribeInstanceTypeOfferings,
    ) -> CallFuture<'a, Page<TypeOffering>> {
        Box::pin(ready(self.offerings.call(request, |request| {
            let data = self.data();
            let sold = data.1.iter().flat_map(|(instance_type, zones)| {
                zones.iter().map(|zone| TypeOffering {
                    instance_type: instance_type.clone(),
                    zone: zone.clone(),
                })
            });
            let sold: Vec<_> = sold.collect();
            Ok(page(&sold, request.max_results, request.next_token.as_deref()))
        })))
    }
}

/// Prices in memory; an operation that is not programmed fails.
#[derive(Debug, Default)]
pub struct MemoryPrices {
    /// Programs `GetProducts`.
    pub products: Programmable<GetProducts, Page<String>>,
    /// Programs `DescribeSpotPriceHistory`.
    pub spot_prices: Programmable<DescribeSpotPriceHistory, Page<SpotPrice>>,
}

impl Prices for MemoryPrices {
    fn get_products<'a>(&'a self, request: &'a GetProducts) -> CallFuture<'a, Page<String>> {
        Box::pin(ready(self.products.call(request, |_| Err(unprogrammed("GetProducts")))))
    }

    fn describe_spot_price_history<'a>(
        &'a self,
        request: &'a DescribeSpotPriceHistory,
    ) -> CallFuture<'a, Page<SpotPrice>> {
        Box::pin(ready(
            self.spot_prices.call(request, |_| Err(unprogrammed("DescribeSpotPriceHistory"))),
        ))
    }
}

fn unprogrammed(operation: &'static str) -> CallError {
    CallError {
        operation,
        code: "NotImplemented".to_owned(),
        message: "no answer is programmed".to_owned(),
    }
}

/// Returns whether an instance type passes the filters; a filter that is unknown here passes.
fn matches(info: &InstanceTypeInfo, filters: &[Filter]) -> bool {
    filters.iter().all(|filter| match filter.name.as_str() {
        "processor-info.supported-architecture" => {
            let architectures = info.processor.iter().flat_map(|known| &known.architectures);
            architectures.into_iter().any(|architecture| filter.values.contains(architecture))
        }
        "instance-type" => filter.values.contains(&info.name),
        _ => true,
    })
}

/// Returns the page that a token names; the token is the position of its first item.
fn page<T: Clone>(all: &[T], size: u32, token: Option<&str>) -> Page<T> {
    let start = token.and_then(|token| token.parse().ok()).unwrap_or(0_usize).min(all.len());
    let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX)).min(all.len());
    Page {
        items: all.get(start..end).unwrap_or_default().to_vec(),
        next_token: (end < all.len()).then(|| end.to_string()),
    }
}
