//! The schedule of a budget: a cron dialect in UTC (spec 10 §13).
//!
//! Start reading at [`Schedule::parse`] and [`Schedule::next_after`]. Absent on purpose: seconds,
//! time zones and `@every`.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

mod error;
mod field;
#[cfg(test)]
mod tests;

pub use error::CronError;

use field::{Domain, Field};

/// How many calendar years after the start the search for a firing goes on. It has to reach a leap
/// day across at least one ordinary four-year gap; what fires less often is taken as never.
const YEARS_SEARCHED: i16 = 5;

/// When a schedule fires: at second 0 of every minute that all its fields match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minute: Field,
    hour: Field,
    day_of_month: Field,
    month: Field,
    day_of_week: Field,
}

impl Schedule {
    /// Reads five fields, or one of the descriptors such as `@daily`.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let fields = if text.starts_with('@') { descriptor(text)? } else { text };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let &[minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
            let found = fields.iter().map(ToString::to_string).collect();
            return Err(CronError::FieldCount { found });
        };
        Ok(Self {
            minute: Field::parse(minute, Domain::MINUTE)?,
            hour: Field::parse(hour, Domain::HOUR)?,
            day_of_month: Field::parse(day_of_month, Domain::DAY_OF_MONTH)?,
            month: Field::parse(month, Domain::MONTH)?,
            day_of_week: Field::parse(day_of_week, Domain::DAY_OF_WEEK)?,
        })
    }

    /// The first firing strictly after `after`, or none if it does not fire until the end of the
    /// fifth year after that.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let first = next_second(after)?;
        let start = Offset::UTC.to_datetime(first);
        let year_max = start.year().saturating_add(YEARS_SEARCHED);

        let mut date = start.date();
        let mut earliest = start.time();
        while date.year() <= year_max {
            if self.fires_on(date)
                && let Some(time) = self.time_from(earliest)
            {
                return Offset::UTC.to_timestamp(date.to_datetime(time)).ok();
            }
            date = date.tomorrow().ok()?;
            earliest = Time::midnight();
        }
        None
    }

    /// The month must match, and so must the day. If one of the two day fields is a plain `*`, both
    /// must match (the star always does); if both are narrowed, one is enough.
    fn fires_on(&self, date: Date) -> bool {
        let day_of_month = self.day_of_month.has(date.day());
        let day_of_week = self.day_of_week.has(date.weekday().to_sunday_zero_offset());
        let day = if self.day_of_month.is_star || self.day_of_week.is_star {
            day_of_month && day_of_week
        } else {
            day_of_month || day_of_week
        };
        day && self.month.has(date.month())
    }

    /// The first firing of a day that is not before `earliest`.
    fn time_from(&self, earliest: Time) -> Option<Time> {
        let hours = (earliest.hour()..24).filter(|&hour| self.hour.has(hour));
        let mut times = hours.flat_map(|hour| {
            let minutes = (0..60).filter(|&minute| self.minute.has(minute));
            minutes.filter_map(move |minute| Time::new(hour, minute, 0, 0).ok())
        });
        times.find(|&time| time >= earliest)
    }
}

/// The start of the next whole second, since nothing fires in between.
fn next_second(after: Timestamp) -> Option<Timestamp> {
    let into_second = SignedDuration::from_nanos(after.subsec_nanosecond().into());
    let step = SignedDuration::from_secs(1).checked_sub(into_second)?;
    after.checked_add(step).ok()
}

/// The five fields that a descriptor stands for.
fn descriptor(text: &str) -> Result<&'static str, CronError> {
    Ok(match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return Err(CronError::UnrecognizedDescriptor(text.to_owned())),
    })
}
