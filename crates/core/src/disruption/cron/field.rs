//! One field of a schedule.

use karpenter_grammar::parse_int;

use super::CronError;

/// What a field may hold: its lowest and highest number, and names for some of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    min: u64,
    max: u64,
    /// The names of `min`, `min + 1` and so on.
    names: &'static [&'static str],
}

impl Domain {
    pub(super) const MINUTE: Self = Self { min: 0, max: 59, names: &[] };
    pub(super) const HOUR: Self = Self { min: 0, max: 23, names: &[] };
    pub(super) const DAY_OF_MONTH: Self = Self { min: 1, max: 31, names: &[] };
    pub(super) const MONTH: Self = Self {
        min: 1,
        max: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    };
    /// Sunday is 0; 7 is not a day.
    pub(super) const DAY_OF_WEEK: Self =
        Self { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };
}

/// The numbers that a field matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// Bit n stands for number n.
    numbers: u64,
    /// Whether some part of the field is a `*` or `?` without a step.
    pub(super) is_star: bool,
}

impl Field {
    /// Reads a comma list of ranges. Empty parts are passed over, so `,` matches nothing.
    pub(super) fn parse(text: &str, domain: Domain) -> Result<Self, CronError> {
        let mut field = Self::default();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let range = Self::parse_range(range, domain)?;
            field.numbers |= range.numbers;
            field.is_star |= range.is_star;
        }
        Ok(field)
    }

    /// Whether the field matches a number.
    pub(super) fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|n| self.numbers.checked_shr(n).unwrap_or(0) & 1 == 1)
    }

    /// Reads `*`, `n` or `a-b`, each with an optional `/step`.
    ///
    /// The checks come in upstream's order, which decides the error of a text with two mistakes.
    fn parse_range(text: &str, domain: Domain) -> Result<Self, CronError> {
        let (range, step) = split_once(text, '/');
        let (low, high) = split_once(range, '-');
        // The text after a star is ignored: `*-5` is `*`.
        let is_star = matches!(low, "*" | "?");

        let (start, mut end) = if is_star {
            (domain.min, domain.max)
        } else {
            let start = number_or_name(low, domain)?;
            match high {
                None => (start, start),
                Some(high) if high.contains('-') => {
                    return Err(CronError::TooManyHyphens(text.to_owned()));
                }
                Some(high) => (start, number_or_name(high, domain)?),
            }
        };
        let step = match step {
            None => 1,
            Some(step) if step.contains('/') => {
                return Err(CronError::TooManySlashes(text.to_owned()));
            }
            Some(step) => {
                // `n/step` runs from n to the highest.
                if high.is_none() {
                    end = domain.max;
                }
                number(step)?
            }
        };
        check_range(start, end, step, domain, text)?;
        let numbers = (start..=end).filter(|n| (n - start).is_multiple_of(step));
        Ok(Self {
            numbers: numbers.fold(0, |bits, n| bits | 1 << n),
            is_star: is_star && step == 1,
        })
    }
}

/// The text before the first separator, and what follows it.
fn split_once(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn check_range(
    start: u64,
    end: u64,
    step: u64,
    domain: Domain,
    text: &str,
) -> Result<(), CronError> {
    let range = text.to_owned();
    if start < domain.min {
        return Err(CronError::BelowMinimum { start, min: domain.min, range });
    }
    if end > domain.max {
        return Err(CronError::AboveMaximum { end, max: domain.max, range });
    }
    if start > end {
        return Err(CronError::Reversed { start, end, range });
    }
    if step == 0 {
        return Err(CronError::ZeroStep(range));
    }
    Ok(())
}

fn number_or_name(text: &str, domain: Domain) -> Result<u64, CronError> {
    let named = (domain.min..).zip(domain.names).find(|(_, name)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(number, _)| Ok(number))
}

fn number(text: &str) -> Result<u64, CronError> {
    let number = parse_int(text)
        .map_err(|error| CronError::NotAnInteger { text: text.to_owned(), error })?;
    u64::try_from(number).map_err(|_| CronError::Negative { number, text: text.to_owned() })
}
