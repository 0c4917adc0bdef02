//! Exact resource quantities and maps of them by resource name.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use karpenter_grammar::{Amount, QuantityFormat};

mod canonical;

/// The pseudo resource that counts nodes in limits and in the status of a NodePool.
pub const NODES: &str = "nodes";

/// Cores.
pub const CPU: &str = "cpu";
/// Bytes of memory.
pub const MEMORY: &str = "memory";
/// How many pods.
pub const PODS: &str = "pods";

/// An amount of a resource in its own unit (cores, bytes, pieces), exact to a billionth.
///
/// Kubernetes rounds quantities to nano precision when it reads them, so integers of nano units
/// hold every amount that exists, and comparing them is exact (spec 10 §15.2).
///
/// The notation is carried along for [texts](Self::canonical) and does not matter to comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

/// How an amount was written, and is written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notation {
    /// `100m`, `2`, `5k`.
    #[default]
    DecimalSi,
    /// `64Mi`.
    BinarySi,
    /// `1e3`.
    DecimalExponent,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self::from_nanos(0);

    /// So many billionths.
    pub const fn from_nanos(nanos: i128) -> Self {
        Self { nanos, notation: Notation::DecimalSi }
    }

    /// So many thousandths.
    pub fn from_millis(millis: i64) -> Self {
        Self::from_nanos(i128::from(millis) * NANOS_PER_MILLI)
    }

    /// So many whole units.
    pub fn from_units(units: i64) -> Self {
        Self::from_nanos(i128::from(units) * NANOS_PER_UNIT)
    }

    /// The same amount in another notation.
    #[must_use]
    pub const fn with_notation(self, notation: Notation) -> Self {
        Self { notation, ..self }
    }

    /// How it is written.
    pub const fn notation(self) -> Notation {
        self.notation
    }

    /// The amount in billionths.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The amount in thousandths, rounded away from zero, as Kubernetes' `MilliValue` does.
    pub fn millis(self) -> i128 {
        div_away_from_zero(self.nanos, NANOS_PER_MILLI)
    }

    /// The amount in whole units, rounded away from zero, as Kubernetes' `Value` does.
    pub fn units(self) -> i128 {
        div_away_from_zero(self.nanos, NANOS_PER_UNIT)
    }

    /// Whether this is nothing.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum, at most the largest amount there is. The notation is this one's, unless this is
    /// nothing.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self { nanos: self.nanos.saturating_add(other.nanos), notation }
    }

    /// The difference, at least the lowest amount there is. It may be negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }
}

/// Takes the number and the notation of an amount that was read.
impl From<Amount> for Quantity {
    fn from(amount: Amount) -> Self {
        let notation = match amount.format() {
            QuantityFormat::Decimal => Notation::DecimalSi,
            QuantityFormat::Binary => Notation::BinarySi,
            QuantityFormat::Exponent => Notation::DecimalExponent,
        };
        Self { nanos: amount.as_nanos(), notation }
    }
}

impl From<Quantity> for Amount {
    fn from(quantity: Quantity) -> Self {
        let format = match quantity.notation {
            Notation::DecimalSi => QuantityFormat::Decimal,
            Notation::BinarySi => QuantityFormat::Binary,
            Notation::DecimalExponent => QuantityFormat::Exponent,
        };
        Self::from_nanos(quantity.nanos, format)
    }
}

fn div_away_from_zero(nanos: i128, unit: i128) -> i128 {
    nanos / unit + (nanos % unit).signum()
}

/// A plain decimal without suffix or trailing zeros: `10`, `10.001`, `-0.5`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos_per_unit = NANOS_PER_UNIT.unsigned_abs();
        let magnitude = self.nanos.unsigned_abs();
        let sign = if self.nanos < 0 { "-" } else { "" };
        write!(f, "{sign}{}", magnitude / nanos_per_unit)?;
        match magnitude % nanos_per_unit {
            0 => Ok(()),
            nanos => write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0')),
        }
    }
}

/// Amounts by resource name. What a resource that is not here means is up to the reader: nothing
/// for requests and capacity, no limit for limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    by_name: BTreeMap<String, Quantity>,
}

impl Resources {
    /// The amount of a resource, if it is listed.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.by_name.get(name).copied()
    }

    /// The amount of a resource, zero if it is not listed.
    pub fn amount(&self, name: &str) -> Quantity {
        self.get(name).unwrap_or_default()
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        match self.by_name.get_mut(name) {
            Some(amount) => *amount = quantity,
            None => {
                self.by_name.insert(name.to_owned(), quantity);
            }
        }
    }

    /// All listed resources, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.by_name.iter().map(|(name, &quantity)| (name.as_str(), quantity))
    }

    /// Whether no resource is listed.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the remaining amounts of the listed resources.
    ///
    /// The result lists no further resources, and amounts may become negative.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        self.iter()
            .map(|(name, quantity)| (name, quantity.saturating_sub(other.amount(name))))
            .collect()
    }

    /// The sum of every resource that one of the two lists.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// Adds every resource that `other` lists.
    pub fn add(&mut self, other: &Self) {
        for (name, quantity) in other.iter() {
            let sum = self.amount(name).saturating_add(quantity);
            self.set(name, sum);
        }
    }

    /// These, with the amounts of `other` in place of their own.
    #[must_use]
    pub fn overlaid_by(&self, other: &Self) -> Self {
        let mut result = self.clone();
        other.iter().for_each(|(name, quantity)| result.set(name, quantity));
        result
    }

    /// Whether this much can be had from `total`. A resource that is not listed counts as nothing
    /// on both sides; nothing can be had from a total that is overdrawn anywhere (spec 20 §1.11).
    pub fn fits_in(&self, total: &Self) -> bool {
        total.iter().all(|(_, quantity)| quantity >= Quantity::ZERO)
            && self.iter().all(|(name, quantity)| quantity <= total.amount(name))
    }

    /// The least amount of every resource that all of the maps list.
    pub fn min<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = all.into_iter();
        let Some(first) = all.next() else { return Self::default() };
        all.fold(first.clone(), |least, next| {
            least
                .iter()
                .filter_map(|(name, quantity)| Some((name, quantity.min(next.get(name)?))))
                .collect()
        })
    }

    /// Compact JSON, as messages carry it: `{"cpu":"1","memory":"1Gi"}`.
    pub fn json(&self) -> String {
        let entries: Vec<_> = self
            .iter()
            .map(|(name, quantity)| format!("{name:?}:\"{}\"", quantity.canonical()))
            .collect();
        format!("{{{}}}", entries.join(","))
    }

    /// The largest amount of every resource that one of the maps lists.
    pub fn max<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut max = Self::default();
        for (name, quantity) in all.into_iter().flat_map(Self::iter) {
            if max.get(name).is_none_or(|largest| largest < quantity) {
                max.set(name, quantity);
            }
        }
        max
    }
}

impl<N: Into<String>> FromIterator<(N, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(resources: I) -> Self {
        let resources = resources.into_iter().map(|(name, quantity)| (name.into(), quantity));
        Self { by_name: resources.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_print_as_plain_decimals() {
        #[rustfmt::skip]
        let cases = [
            (Quantity::ZERO,                    "0"),
            (Quantity::from_units(10),          "10"),
            (Quantity::from_millis(10_001),     "10.001"),
            (Quantity::from_millis(1_000),      "1"),
            (Quantity::from_millis(-500),       "-0.5"),
            (Quantity::from_nanos(1),           "0.000000001"),
            (Quantity::from_nanos(i128::MIN),   "-170141183460469231731687303715.884105728"),
        ];
        for (quantity, text) in cases {
            assert_eq!(quantity.to_string(), text, "{quantity:?}");
        }
    }

    #[test]
    fn millis_and_units_round_away_from_zero() {
        for (nanos, millis, units) in [
            (0, 0, 0),
            (1, 1, 1),
            (-1, -1, -1),
            (1_000_000, 1, 1),
            (2_500_000_000, 2_500, 3),
            (-2_500_000_000, -2_500, -3),
            (3_000_000_000, 3_000, 3),
        ] {
            let quantity = Quantity::from_nanos(nanos);
            assert_eq!((quantity.millis(), quantity.units()), (millis, units), "{nanos} nanos");
        }
    }

    #[test]
    fn quantity_arithmetic_saturates() {
        let max = Quantity::from_nanos(i128::MAX);
        let min = Quantity::from_nanos(i128::MIN);
        assert_eq!(max.saturating_add(Quantity::from_units(1)), max);
        assert_eq!(min.saturating_sub(Quantity::from_units(1)), min);
    }

    #[test]
    fn subtract_keeps_the_keys_of_the_left_side_and_max_takes_all() {
        let a = units(&[("cpu", 2), ("memory", 8)]);
        let b = units(&[("cpu", 3), ("pods", 5)]);
        assert_eq!(a.subtract(&b), units(&[("cpu", -1), ("memory", 8)]));
        assert_eq!(Resources::max([&a, &b]), units(&[("cpu", 3), ("memory", 8), ("pods", 5)]));
        assert_eq!(Resources::max([]), Resources::default());
    }

    fn units(list: &[(&str, i64)]) -> Resources {
        list.iter().map(|&(name, n)| (name, Quantity::from_units(n))).collect()
    }

    #[test]
    fn requests_do_not_fit_if_the_total_is_too_small_or_negative() {
        #[rustfmt::skip]
        let cases = [
            ("20/A39",        units(&[("foo.com/x", 0)]),          units(&[("cpu", 1)]),                true),
            ("20/A39",        units(&[("foo.com/x", 0)]),          units(&[]),                          true),
            ("20/A40",        units(&[("cpu", 1)]),                units(&[("cpu", 4), ("memory", -1)]), false),
            ("20/A40",        units(&[]),                          units(&[("cpu", -1)]),               false),
            ("all of it",     units(&[("cpu", 4)]),                units(&[("cpu", 4)]),                true),
            ("too much",      units(&[("cpu", 5)]),                units(&[("cpu", 4)]),                false),
            ("unknown",       units(&[("cpu", 1), ("gpu", 1)]),    units(&[("cpu", 4)]),                false),
            ("nothing asked", units(&[]),                          units(&[]),                          true),
        ];
        for (case, requests, total, expected) in cases {
            assert_eq!(requests.fits_in(&total), expected, "{case}: {requests:?} in {total:?}");
        }
        let a_little_more = Resources::from_iter([("cpu", Quantity::from_nanos(4_000_000_001))]);
        assert!(!a_little_more.fits_in(&units(&[("cpu", 4)])));
    }

    #[test]
    fn sums_have_all_keys_and_minima_only_common_ones() {
        let a = units(&[("cpu", 2), ("memory", 8)]);
        let b = units(&[("cpu", 3), ("pods", 5)]);
        assert_eq!(a.merge(&b), units(&[("cpu", 5), ("memory", 8), ("pods", 5)]));
        assert_eq!(Resources::min([&a, &b]), units(&[("cpu", 2)]));
        assert_eq!(Resources::min([&a]), a);
        assert_eq!(Resources::min([]), Resources::default());
        assert_eq!(a.overlaid_by(&b), units(&[("cpu", 3), ("memory", 8), ("pods", 5)]));
    }

    #[test]
    fn lists_print_as_compact_json_by_name() {
        let gib = Quantity::from_units(1 << 30).with_notation(Notation::BinarySi);
        let mut list = units(&[("pods", 1), ("cpu", 1)]);
        list.set("memory", gib);
        assert_eq!(list.json(), r#"{"cpu":"1","memory":"1Gi","pods":"1"}"#);
        assert_eq!(Resources::default().json(), "{}");
    }
}
