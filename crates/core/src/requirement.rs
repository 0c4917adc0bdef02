//! Requirements: which values a node may have for a label (spec 10 §10, spec 20 §1).
//!
//! A [`RequirementItem`] is what a spec says: key, operator, values. A [`Requirement`] is the set
//! of values that it stands for, and [`Requirements`] are such sets by key. Items become sets once,
//! on the way in (keys are normalised by [`Aliases`] there), and items again when a NodeClaim is
//! written.
//!
//! This is the plain version on strings. It is meant to be obviously right, not fast.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::{fmt, iter};

mod aliases;
mod bounds;
mod compatibility;
mod item;
mod requirements;
#[cfg(test)]
mod tests;

pub use aliases::Aliases;
pub use compatibility::{IncompatibleRequirements, RequirementConflict};
pub use item::{BoundError, Operator, OperatorError, RequirementItem};
pub use requirements::Requirements;

use bounds::Bounds;

/// How many values the text form names before it says "and N others".
const VALUES_SHOWN: usize = 5;

/// The set of values that one label may have.
///
/// Without `complement` these are exactly `values`, where the empty set means that the label must
/// not exist. With it they are all texts except `values`, cut by the bounds.
///
/// Invariant: bounds stand only on a complement, they do not cross, and every excluded value lies
/// inside them. So equal sets built by different intersections are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    complement: bool,
    /// Shared by copies: a requirement may list fifty thousand values, and each of 400 instance
    /// types that do not meet it names it in its explanation. That took 2 s and 1.2 GB, now 30 ms
    /// and 20 MB.
    values: Arc<BTreeSet<String>>,
    bounds: Bounds,
    min_values: Option<u32>,
}

impl Requirement {
    /// The set that an item of a spec stands for, with its key and values normalised.
    pub fn from_item(item: &RequirementItem, aliases: &Aliases) -> Result<Self, BoundError> {
        let key = aliases.normalize_key(&item.key);
        let values = item.values.iter().map(|value| aliases.normalize_value(key, value));
        let set = match item.operator {
            Operator::In => Self::in_values(key, values),
            Operator::NotIn => Self::not_in(key, values),
            Operator::Exists => Self::exists(key),
            Operator::DoesNotExist => Self::does_not_exist(key),
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
                let bound = item.parse_bound(values)?;
                match Bounds::from_operator(item.operator, bound) {
                    Some(bounds) => Self { bounds, ..Self::exists(key) },
                    // Nothing lies beyond the last integer. The minValues go with it, spec 20 §1.2.
                    None => return Ok(Self::does_not_exist(key)),
                }
            }
        };
        Ok(Self { min_values: item.min_values, ..set })
    }

    /// Exactly these values. The key is taken as normalised already.
    pub fn in_values<V: Into<String>>(key: &str, values: impl IntoIterator<Item = V>) -> Self {
        Self {
            key: key.to_owned(),
            complement: false,
            values: Arc::new(values.into_iter().map(Into::into).collect()),
            bounds: Bounds::NONE,
            min_values: None,
        }
    }

    /// Every value but these. The key is taken as normalised already.
    pub fn not_in<V: Into<String>>(key: &str, values: impl IntoIterator<Item = V>) -> Self {
        Self { complement: true, ..Self::in_values(key, values) }
    }

    /// Any value. The key is taken as normalised already.
    pub fn exists(key: &str) -> Self {
        Self::not_in(key, iter::empty::<String>())
    }

    /// No value: a node must not have the label. The key is taken as normalised already.
    pub fn does_not_exist(key: &str) -> Self {
        Self::in_values(key, iter::empty::<String>())
    }

    /// The same set, asking for at least so many distinct values among the instance types.
    #[must_use]
    pub fn with_min_values(self, min_values: Option<u32>) -> Self {
        Self { min_values, ..self }
    }

    /// The normalised label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether the set is "all but [`Self::values`]" (NotIn, Exists and the numeric operators).
    pub fn is_complement(&self) -> bool {
        self.complement
    }

    /// The listed values: the allowed ones, or the excluded ones of a complement.
    pub fn values(&self) -> &BTreeSet<String> {
        &self.values
    }

    /// The inclusive lower bound.
    pub fn gte(&self) -> Option<i64> {
        self.bounds.gte
    }

    /// The inclusive upper bound.
    pub fn lte(&self) -> Option<i64> {
        self.bounds.lte
    }

    /// How many distinct values the candidate instance types must offer.
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Whether a node may have this value.
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.bounds.contains(value)
    }

    /// The operator that describes the set. Numeric ones are reported as Exists or NotIn.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
        }
    }

    /// Whether the operator is NotIn or DoesNotExist, which a node without the label satisfies.
    pub fn allows_absence(&self) -> bool {
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist)
    }

    /// How many values are allowed. A complement counts as i64::MAX less the excluded ones,
    /// whatever its bounds (spec 10 §10.3).
    pub fn len(&self) -> i64 {
        let listed = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        if self.complement { i64::MAX - listed } else { listed }
    }

    /// Whether the operator is DoesNotExist. A complement is never empty, even when its exclusions
    /// happen to cover every integer inside its bounds.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one allowed value, for a label that needs one (spec 10 §10.3.6).
    ///
    /// It is the smallest member, or the integer of a complement that `rng` picks, so that nodes of
    /// one pool get different values, and the same ones in a replay.
    ///
    /// Only integers from 0 up are tried, because a text with a minus sign is no label value. So
    /// `Lt 0` has none.
    pub fn pick_value(&self, rng: u64) -> Option<String> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let lowest = i128::from(self.bounds.gte.unwrap_or(0).max(0));
        let highest = i128::from(self.bounds.lte.unwrap_or(i64::MAX));
        let count = highest - lowest + 1;
        if count <= 0 {
            return None;
        }
        // One more try than there are exclusions finds an allowed integer, if there is one.
        let tries = count.min(i128::try_from(self.values.len()).unwrap_or(i128::MAX) + 1);
        (0..tries)
            .map(|offset| (lowest + (i128::from(rng) + offset) % count).to_string())
            .find(|value| !self.values.contains(value))
    }

    /// The values that both allow (spec 10 §10.3.2). The key is this one's.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let Some(bounds) = self.bounds.intersection(other.bounds) else {
            return Self::does_not_exist(&self.key).with_min_values(min_values);
        };
        let mut values: BTreeSet<String> = match (self.complement, other.complement) {
            (true, true) => &*self.values | &other.values,
            (true, false) => &*other.values - &self.values,
            (false, true) => &*self.values - &other.values,
            (false, false) => &*self.values & &other.values,
        };
        values.retain(|value| bounds.contains(value));
        let complement = self.complement && other.complement;
        Self {
            key: self.key.clone(),
            complement,
            values: Arc::new(values),
            bounds: if complement { bounds } else { Bounds::NONE },
            min_values,
        }
    }

    /// Whether [`Self::intersection`] is not empty, without building it.
    pub fn has_intersection(&self, other: &Self) -> bool {
        match (self.complement, other.complement) {
            (true, true) => self.bounds.intersection(other.bounds).is_some(),
            (false, false) if other.values.len() < self.values.len() => {
                other.values.iter().any(|value| self.has(value))
            }
            (false, _) => self.values.iter().any(|value| other.has(value)),
            (true, false) => other.values.iter().any(|value| self.has(value)),
        }
    }

    /// The items that a NodeClaim carries for this set (spec 10 §10.3.5): two when both bounds are
    /// set, else one. Gt and Lt never come back, and a bounded complement loses its exclusions.
    pub fn items(&self) -> Vec<RequirementItem> {
        let item = |operator, values| RequirementItem {
            key: self.key.clone(),
            operator,
            values,
            min_values: self.min_values,
        };
        let bound = |operator, bound: i64| item(operator, vec![bound.to_string()]);
        match (self.bounds.gte, self.bounds.lte) {
            (Some(gte), Some(lte)) => vec![bound(Operator::Gte, gte), bound(Operator::Lte, lte)],
            (Some(gte), None) => vec![bound(Operator::Gte, gte)],
            (None, Some(lte)) => vec![bound(Operator::Lte, lte)],
            (None, None) => vec![item(self.operator(), self.values.iter().cloned().collect())],
        }
    }
}

/// `key In [a b] minValues 2`, `key Exists >=2 <=8` (spec 10 §10.3.7).
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.operator())?;
        if !self.values.is_empty() {
            let shown: Vec<_> = self.values.iter().take(VALUES_SHOWN).map(String::as_str).collect();
            write!(f, " [{}", shown.join(" "))?;
            match self.values.len().saturating_sub(VALUES_SHOWN) {
                0 => f.write_str("]")?,
                others => write!(f, " and {others} others]")?,
            }
        }
        if let Some(gte) = self.bounds.gte {
            write!(f, " >={gte}")?;
        }
        if let Some(lte) = self.bounds.lte {
            write!(f, " <={lte}")?;
        }
        match self.min_values {
            Some(min_values) => write!(f, " minValues {min_values}"),
            None => Ok(()),
        }
    }
}
