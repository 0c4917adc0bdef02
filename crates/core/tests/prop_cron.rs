//! The firing search agrees with trying every minute (spec 10 §13).

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::cron::Schedule;
use proptest::prelude::*;

/// One part of a field, as it is written and as it is meant.
#[derive(Clone, Debug)]
struct Range {
    star: bool,
    low: i8,
    high: i8,
    step: Option<i8>,
}

impl Range {
    fn text(&self) -> String {
        let Self { star, low, high, step } = self;
        let range = match (star, low == high) {
            (true, _) => "*".to_owned(),
            (false, true) => low.to_string(),
            (false, false) => format!("{low}-{high}"),
        };
        step.map_or(range.clone(), |step| format!("{range}/{step}"))
    }

    fn has(&self, number: i8, max: i8) -> bool {
        // A single number with a step runs to the end.
        let high = if self.low == self.high && self.step.is_some() { max } else { self.high };
        let (low, high) = if self.star { (self.low, max) } else { (self.low, high) };
        (low..=high).contains(&number) && (number - low) % self.step.unwrap_or(1) == 0
    }
}

#[derive(Clone, Debug)]
struct Field {
    ranges: Vec<Range>,
    max: i8,
}

impl Field {
    fn text(&self) -> String {
        self.ranges.iter().map(Range::text).collect::<Vec<_>>().join(",")
    }

    fn has(&self, number: i8) -> bool {
        self.ranges.iter().any(|range| range.has(number, self.max))
    }

    fn is_star(&self) -> bool {
        self.ranges.iter().any(|range| range.star && range.step.is_none_or(|step| step == 1))
    }
}

fn field(min: i8, max: i8) -> impl Strategy<Value = Field> {
    let step = prop::option::weighted(0.3, 1..8_i8);
    let numbers = (min..=max, min..=max, step.clone()).prop_map(|(a, b, step)| Range {
        star: false,
        low: a.min(b),
        high: a.max(b),
        step,
    });
    let single = (min..=max).prop_map(|n| Range { star: false, low: n, high: n, step: None });
    let star = step.prop_map(move |step| Range { star: true, low: min, high: max, step });
    prop::collection::vec(prop_oneof![1 => single, 2 => numbers, 2 => star], 1..3)
        .prop_map(move |ranges| Field { ranges, max })
}

/// Minute, hour, day of month, month, day of week.
fn fields() -> impl Strategy<Value = [Field; 5]> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6))
        .prop_map(|(minute, hour, day, month, weekday)| [minute, hour, day, month, weekday])
}

fn text(fields: &[Field; 5]) -> String {
    fields.each_ref().map(Field::text).join(" ")
}

fn fires(fields: &[Field; 5], at: DateTime) -> bool {
    let [minute, hour, day, month, weekday] = fields;
    let day_matches = day.has(at.day());
    let weekday_matches = weekday.has(at.weekday().to_sunday_zero_offset());
    let either = !day.is_star() && !weekday.is_star();
    minute.has(at.minute())
        && hour.has(at.hour())
        && month.has(at.month())
        && if either { day_matches || weekday_matches } else { day_matches && weekday_matches }
}

/// Around the end of February of a leap year, where days are odd, or anywhere in four years.
fn start() -> impl Strategy<Value = Timestamp> {
    prop_oneof![951_700_000..951_900_000_i64, 946_684_800..1_072_915_200_i64]
        .prop_flat_map(|second| (Just(second), 0..1_000_000_000_i32))
        .prop_map(|(second, nano)| Timestamp::new(second, nano).expect("within the range of time"))
}

/// The first of the points in time, a fixed step apart and strictly after `after`, that matches.
fn scan(
    fields: &[Field; 5],
    after: Timestamp,
    step: SignedDuration,
    until: Timestamp,
) -> Option<Timestamp> {
    let seconds = step.as_secs();
    let mut second = (after.as_second().div_euclid(seconds) + 1) * seconds;
    while second <= until.as_second() {
        let at = Timestamp::from_second(second).expect("not after `until`");
        if fires(fields, Offset::UTC.to_datetime(at)) {
            return Some(at);
        }
        second += seconds;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn next_after_agrees_with_a_scan_of_every_minute(fields in fields(), after in start()) {
        let until = after.checked_add(SignedDuration::from_hours(20 * 24)).unwrap();
        let next = Schedule::parse(&text(&fields)).unwrap().next_after(after);
        let found = scan(&fields, after, SignedDuration::from_mins(1), until);
        prop_assert_eq!(next.filter(|&next| next <= until), found, "{}", text(&fields));
    }

    #[test]
    fn next_after_agrees_with_a_scan_of_every_midnight(fields in fields(), after in start()) {
        let midnight = Field { ranges: vec![Range { star: false, low: 0, high: 0, step: None }], max: 0 };
        let [_, _, day, month, weekday] = fields;
        let fields = [midnight.clone(), midnight, day, month, weekday];
        // To the last day of the fifth year.
        let year_max = Offset::UTC.to_datetime(after).year() + 5;
        let until = Offset::UTC.to_timestamp(DateTime::new(year_max, 12, 31, 0, 0, 0, 0).unwrap());
        let next = Schedule::parse(&text(&fields)).unwrap().next_after(after);
        let found = scan(&fields, after, SignedDuration::from_hours(24), until.unwrap());
        prop_assert_eq!(next, found, "{}", text(&fields));
    }
}
