//! The faults of a scenario, as they are written.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error_text::suggestion;
use super::file::{FileTime, parse_duration, whole};
use super::{ScenarioError, problem};
use crate::cloud::{CallFaults, CloudFaults, Method, Shortage};
use crate::faults::{ApiFaults, FaultSpec, RandomDelay};

/// What goes wrong, and for how long.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct FileFaults {
    api: FileApi,
    cloud: FileCloud,
    #[serde(rename = "for")]
    length: Option<FileTime>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct FileApi {
    errors: f64,
    conflicts: f64,
    slow: Option<FileDelay>,
    lost_answers: f64,
    timeouts: f64,
    expired: f64,
    watch_cuts: f64,
    watch_delays: Option<FileDelay>,
    duplicates: f64,
    reorders: f64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct FileCloud {
    launch_delay: Option<FileTime>,
    shortages: Vec<FileShortage>,
    lost_instances: Option<FileLoss>,
    failed_registrations: f64,
    errors: f64,
    slow: Option<FileDelay>,
    lost_answers: f64,
    methods: BTreeMap<String, FileCalls>,
    #[serde(deserialize_with = "calls")]
    calls_in_flight: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDelay {
    rate: f64,
    by: FileTime,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLoss {
    rate: f64,
    within: FileTime,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct FileShortage {
    instance_type: Option<String>,
    zone: Option<String>,
    capacity_type: Option<String>,
    from: Option<FileTime>,
    until: Option<FileTime>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct FileCalls {
    errors: f64,
    slow: Option<FileDelay>,
    lost_answers: f64,
}

impl FileFaults {
    /// Reads them. The error names the field under `place`.
    pub(super) fn parse(self, place: &str) -> Result<FaultSpec, ScenarioError> {
        let length = self.length.map(|text| parse_duration(&format!("{place}.for"), &text));
        Ok(FaultSpec {
            api: self.api.parse(&format!("{place}.api"))?,
            cloud: self.cloud.parse(&format!("{place}.cloud"))?,
            length: length.transpose()?,
        })
    }
}

impl FileApi {
    fn parse(self, place: &str) -> Result<ApiFaults, ScenarioError> {
        let rate = |field: &str, value: f64| parse_rate(&format!("{place}.{field}"), value);
        let late = |field: &str, value| parse_delay(&format!("{place}.{field}"), value);
        Ok(ApiFaults {
            errors: rate("errors", self.errors)?,
            conflicts: rate("conflicts", self.conflicts)?,
            slow: late("slow", self.slow)?,
            lost_answers: rate("lostAnswers", self.lost_answers)?,
            timeouts: rate("timeouts", self.timeouts)?,
            expired: rate("expired", self.expired)?,
            watch_cuts: rate("watchCuts", self.watch_cuts)?,
            watch_delays: late("watchDelays", self.watch_delays)?,
            duplicates: rate("duplicates", self.duplicates)?,
            reorders: rate("reorders", self.reorders)?,
        })
    }
}

impl FileCloud {
    fn parse(self, place: &str) -> Result<CloudFaults, ScenarioError> {
        let at = |field: &str| format!("{place}.{field}");
        let launch_delay = self.launch_delay.map(|text| parse_duration(&at("launchDelay"), &text));
        let mut shortages = Vec::with_capacity(self.shortages.len());
        for (index, shortage) in self.shortages.into_iter().enumerate() {
            shortages.push(shortage.parse(&at(&format!("shortages[{index}]")))?);
        }
        let lost_instances = match self.lost_instances {
            None => RandomDelay::default(),
            Some(FileLoss { rate: value, within }) => RandomDelay {
                rate: parse_rate(&at("lostInstances.rate"), value)?,
                by: parse_duration(&at("lostInstances.within"), &within)?,
            },
        };
        let mut methods = BTreeMap::new();
        for (name, calls) in self.methods {
            let place = at(&format!("methods.{name}"));
            let known = Method::ALL.into_iter().find(|method| method.name() == name);
            let method = known.ok_or_else(|| {
                let fix = suggestion(&name, &Method::ALL.map(Method::name));
                problem(&place, "is no call of a cloud").with_fix(fix)
            })?;
            methods.insert(method, calls.parse(&place)?);
        }
        let calls =
            FileCalls { errors: self.errors, slow: self.slow, lost_answers: self.lost_answers };
        Ok(CloudFaults {
            launch_delay: launch_delay.transpose()?.unwrap_or_default(),
            shortages,
            lost_instances,
            failed_registrations: parse_rate(
                &at("failedRegistrations"),
                self.failed_registrations,
            )?,
            calls: calls.parse(place)?,
            methods,
            calls_in_flight: self.calls_in_flight,
        })
    }
}

impl FileCalls {
    fn parse(self, place: &str) -> Result<CallFaults, ScenarioError> {
        Ok(CallFaults {
            errors: parse_rate(&format!("{place}.errors"), self.errors)?,
            slow: parse_delay(&format!("{place}.slow"), self.slow)?,
            lost_answers: parse_rate(&format!("{place}.lostAnswers"), self.lost_answers)?,
        })
    }
}

impl FileShortage {
    fn parse(self, place: &str) -> Result<Shortage, ScenarioError> {
        let time = |field: &str, text: Option<FileTime>| {
            text.map(|text| parse_duration(&format!("{place}.{field}"), &text)).transpose()
        };
        let any = Shortage::default();
        let shortage = Shortage {
            instance_type: self.instance_type.unwrap_or(any.instance_type),
            zone: self.zone.unwrap_or(any.zone),
            capacity_type: self.capacity_type.unwrap_or(any.capacity_type),
            from: time("from", self.from)?.unwrap_or_default(),
            until: time("until", self.until)?,
        };
        if shortage.until.is_some_and(|until| until <= shortage.from) {
            let found = problem(&format!("{place}.until"), "is not after its `from`");
            return Err(found.with_fix("use a later time, or leave it out"));
        }
        Ok(shortage)
    }
}

/// A number of calls; no limit is the field left out.
fn calls<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    whole::<_, 1, { u32::MAX }>(deserializer).map(Some)
}

fn parse_rate(place: &str, value: f64) -> Result<f64, ScenarioError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(problem(place, format!("is {value}")).with_fix("use 0 (never) to 1 (always)"))
}

fn parse_delay(place: &str, late: Option<FileDelay>) -> Result<RandomDelay, ScenarioError> {
    let Some(FileDelay { rate: value, by }) = late else { return Ok(RandomDelay::default()) };
    let by = parse_duration(&format!("{place}.by"), &by)?;
    Ok(RandomDelay { rate: parse_rate(&format!("{place}.rate"), value)?, by })
}
