//! The annotation `karpenter.sh/do-not-disrupt` (spec 10 §9.2, spec 30 §3.3).

use std::error::Error;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use karpenter_grammar::{DurationError, parse_duration};

/// Whether the annotation of a Node or NodeClaim keeps it from voluntary disruption: only the exact
/// text `true` does. Durations are for pods.
pub fn blocks_node(annotation: Option<&str>) -> bool {
    annotation == Some("true")
}

/// What the annotation of a pod means at a point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodProtection {
    /// There is no annotation.
    None,
    /// `true`: the pod is never disrupted voluntarily.
    Always,
    /// A duration counted from the start of a pod that has not started, so it is not over.
    UntilStarted,
    /// A duration that is over at this time. Worth an event.
    Until(Timestamp),
    /// A duration that is over. Worth an event.
    Elapsed,
    /// Neither `true` nor a positive duration; counts as not set. Worth an event.
    Invalid(InvalidAnnotation),
}

impl PodProtection {
    /// Returns the protection by the annotation of a pod that started at `started`.
    pub fn from_annotation(
        annotation: Option<&str>,
        started: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let Some(text) = annotation else {
            return Self::None;
        };
        if text == "true" {
            return Self::Always;
        }
        let duration = match parse_positive_duration(text) {
            Ok(duration) => duration,
            Err(invalid) => return Self::Invalid(invalid),
        };
        match started {
            None => Self::UntilStarted,
            Some(started) if now.duration_since(started) < duration => {
                Self::Until(started.checked_add(duration).unwrap_or(Timestamp::MAX))
            }
            Some(_) => Self::Elapsed,
        }
    }

    /// Whether the pod must be left alone now.
    pub fn is_active(&self) -> bool {
        match self {
            Self::Always | Self::UntilStarted | Self::Until(_) => true,
            Self::None | Self::Elapsed | Self::Invalid(_) => false,
        }
    }
}

fn parse_positive_duration(text: &str) -> Result<SignedDuration, InvalidAnnotation> {
    match parse_duration(text) {
        Ok(duration) if duration.is_positive() => Ok(duration),
        Ok(_) => Err(InvalidAnnotation::NotPositive { text: text.to_owned() }),
        Err(error) => Err(InvalidAnnotation::NotADuration { text: text.to_owned(), error }),
    }
}

/// Why an annotation means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidAnnotation {
    /// The value is not a duration.
    NotADuration {
        /// The annotation's value.
        text: String,
        /// The parse error.
        error: DurationError,
    },
    /// The duration is zero or negative.
    NotPositive {
        /// The annotation's value.
        text: String,
    },
}

impl fmt::Display for InvalidAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADuration { text, error } => {
                write!(f, "failed to parse {text:?} as a duration: {error}")
            }
            Self::NotPositive { text } => write!(f, "duration {text:?} must be positive"),
        }
    }
}

impl Error for InvalidAnnotation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_text_true_blocks_a_node() {
        for (case, annotation, blocked) in [
            ("10/KY-1", Some("true"), true),
            ("10/KY-1", Some("True"), false),
            ("10/KY-1", Some("1h"), false),
            ("absent", None, false),
        ] {
            assert_eq!(blocks_node(annotation), blocked, "{case}: {annotation:?}");
        }
    }

    #[test]
    fn do_not_disrupt_protects_a_pod_forever_or_for_a_duration() {
        let now: Timestamp = "2000-06-15T12:30:30Z".parse().unwrap();
        let ago = |minutes| now.checked_sub(SignedDuration::from_mins(minutes)).unwrap();
        let until = PodProtection::Until("2000-06-15T12:31:30Z".parse().unwrap());
        #[rustfmt::skip]
        let cases = [
            // case        annotation      started        protection                    active
            ("10/KY-2",    Some("10m"),    Some(ago(9)),  until,                        true),
            ("10/KY-2",    Some("10m"),    Some(ago(11)), PodProtection::Elapsed,       false),
            ("10/KY-2, 30/CAND-20", Some("10m"), None,          PodProtection::UntilStarted,  true),
            ("30/CAND-17", Some("2m"),     Some(now),     PodProtection::Until("2000-06-15T12:32:30Z".parse().unwrap()), true),
            ("30/CAND-17", Some("2m"),     Some(ago(3)),  PodProtection::Elapsed,       false),
            ("just over",  Some("10m"),    Some(ago(10)), PodProtection::Elapsed,       false),
            ("compound",   Some("1h30m"),  Some(ago(90)), PodProtection::Elapsed,       false),
            ("true",       Some("true"),   Some(ago(99)), PodProtection::Always,        true),
            ("absent",     None,           Some(ago(1)),  PodProtection::None,          false),
            ("no end",     Some("2562047h47m16s"), Some(Timestamp::MAX), PodProtection::Until(Timestamp::MAX), true),
        ];
        for (case, annotation, started, protection, active) in cases {
            let got = PodProtection::from_annotation(annotation, started, now);
            assert_eq!(got, protection, "{case}: {annotation:?} started {started:?}");
            assert_eq!(got.is_active(), active, "{case}: {annotation:?} started {started:?}");
        }
    }

    #[test]
    fn an_annotation_without_a_positive_duration_protects_no_pod() {
        #[rustfmt::skip]
        let cases = [
            ("10/KY-3", "-5m",   r#"duration "-5m" must be positive"#),
            ("10/KY-3", "0s",    r#"duration "0s" must be positive"#),
            ("10/KY-3", "yes",   r#"failed to parse "yes" as a duration: time: invalid duration "yes""#),
            ("false",   "false", r#"failed to parse "false" as a duration: time: invalid duration "false""#),
            ("no unit", "5",     r#"failed to parse "5" as a duration: time: missing unit in duration "5""#),
        ];
        for (case, annotation, why) in cases {
            for started in [None, Some(Timestamp::UNIX_EPOCH)] {
                let got = PodProtection::from_annotation(
                    Some(annotation),
                    started,
                    Timestamp::UNIX_EPOCH,
                );
                assert!(!got.is_active(), "{case}: {annotation}");
                let PodProtection::Invalid(invalid) = got else {
                    panic!("{case}: {annotation} is {got:?}");
                };
                assert_eq!(invalid.to_string(), why, "{case}");
            }
        }
    }
}
