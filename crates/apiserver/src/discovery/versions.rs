//! The order of versions: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, then the rest by name.

use std::cmp::Reverse;

/// A version of an API. Sorts the most mature first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version<'a> {
    /// Whether the name has no maturity, such as `v1beta1`; those come last.
    is_nonstandard: bool,
    rank: Option<Reverse<(Stage, u32, u32)>>,
    text: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Alpha,
    Beta,
    Stable,
}

impl<'a> Version<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let rank = rank(text).map(Reverse);
        Self { is_nonstandard: rank.is_none(), rank, text }
    }

    pub(super) fn text(self) -> &'a str {
        self.text
    }
}

/// `v1beta2` has stage beta, major 1, minor 2.
fn rank(text: &str) -> Option<(Stage, u32, u32)> {
    let rest = text.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('0'));
    let major = number(major)?;
    match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        _ if rest.is_empty() => Some((Stage::Stable, major, 0)),
        (Some(minor), _) => Some((Stage::Beta, major, number(minor)?)),
        (_, Some(minor)) => Some((Stage::Alpha, major, number(minor)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_sort_first_and_other_names_last() {
        let sorted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v01",
        ];
        let mut found = sorted;
        found.reverse();
        found.sort_by_key(|text| Version::parse(text));
        assert_eq!(found, sorted);
    }
}
