//! What the types of a kubelet configuration cannot say: which keys and values make sense, and how
//! settings go together (the semantic rules of spec 10 §6.6).
//!
//! Values of the wrong type are passed over; the decoder reports those.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::managed_settings::text_map;
use crate::grammar::{Amount, parse_duration};
use crate::resources;

/// What the kubelet can watch for eviction; it ignores every other key.
const EVICTION_SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];

const SOFT: &str = "evictionSoft";
const GRACE: &str = "evictionSoftGracePeriod";
const GC_HIGH: &str = "imageGCHighThresholdPercent";
const GC_LOW: &str = "imageGCLowThresholdPercent";

/// Every rule that `config` breaks.
pub(super) fn errors(config: &Map<String, Value>) -> Vec<String> {
    let mut errors = Vec::new();
    if config.contains_key("registerWithTaints") {
        errors.push(
            "spec.kubelet.registerWithTaints: can't be set, Karpenter sets it from the NodeClaim's \
             taints so the node registers unschedulable until it's ready"
                .to_owned(),
        );
    }
    check_eviction(config, &mut errors);
    check_eviction_pairs(config, &mut errors);
    check_reservations(config, &mut errors);
    check_numbers(config, &mut errors);
    errors
}

fn check_eviction(config: &Map<String, Value>, errors: &mut Vec<String>) {
    for field in ["evictionHard", SOFT, GRACE, "evictionMinimumReclaim"] {
        for (signal, value) in texts(config, field) {
            if !EVICTION_SIGNALS.contains(&signal.as_str()) {
                let known = EVICTION_SIGNALS.join(", ");
                errors.push(format!(
                    "spec.kubelet.{field}: {signal:?} isn't a valid eviction signal, must be one of \
                     {known}"
                ));
            }
            let problem = if field == GRACE {
                grace_period_problem(&value)
            } else {
                threshold_problem(&value)
            };
            if let Some(problem) = problem {
                errors.push(format!("spec.kubelet.{field}[{signal}]: {value:?} {problem}"));
            }
        }
    }
}

/// Returns why a text is no percentage or quantity from zero on.
fn threshold_problem(value: &str) -> Option<&'static str> {
    const NEITHER: &str = "must be a percentage or a resource quantity";
    if let Some(percentage) = value.strip_suffix('%') {
        let is_in_range = percentage.parse().is_ok_and(|p: f64| (0.0..=100.0).contains(&p));
        return (!is_in_range).then_some(NEITHER);
    }
    match value.parse::<Amount>() {
        Err(_) => Some(NEITHER),
        Ok(amount) if amount.as_nanos() < 0 => Some("can't be a negative resource quantity"),
        Ok(_) => None,
    }
}

fn grace_period_problem(value: &str) -> Option<&'static str> {
    match parse_duration(value) {
        Err(_) => Some("must be a duration"),
        Ok(duration) if duration.is_negative() => Some("can't be a negative duration"),
        Ok(_) => None,
    }
}

/// A soft threshold without a grace period would be ignored, and the other way round refused.
fn check_eviction_pairs(config: &Map<String, Value>, errors: &mut Vec<String>) {
    let (soft, grace) = (texts(config, SOFT), texts(config, GRACE));
    for signal in soft.keys().filter(|signal| !grace.contains_key(*signal)) {
        errors.push(format!("spec.kubelet.{SOFT}[{signal}]: has no matching {GRACE}"));
    }
    for signal in grace.keys().filter(|signal| !soft.contains_key(*signal)) {
        errors.push(format!("spec.kubelet.{GRACE}[{signal}]: has no matching {SOFT}"));
    }
}

/// A reservation that is no quantity may be an expression, so only its sign is checked.
fn check_reservations(config: &Map<String, Value>, errors: &mut Vec<String>) {
    for field in ["kubeReserved", "systemReserved"] {
        for (resource, value) in texts(config, field) {
            if !resources::RESERVABLE.contains(&resource.as_str()) {
                let reservable = resources::RESERVABLE.join(", ");
                errors.push(format!(
                    "spec.kubelet.{field}: {resource:?} isn't a reservable resource, must be one of \
                     {reservable}"
                ));
            }
            if value.starts_with('-') {
                errors.push(format!(
                    "spec.kubelet.{field}[{resource}]: {value:?} can't be a negative resource \
                     quantity"
                ));
            }
        }
    }
}

fn check_numbers(config: &Map<String, Value>, errors: &mut Vec<String>) {
    for field in [GC_HIGH, GC_LOW] {
        if let Some(number) = integer(config, field).filter(|n| !(0..=100).contains(n)) {
            errors.push(format!("spec.kubelet.{field}: {number} must be between 0 and 100"));
        }
    }
    for field in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        if let Some(number) = integer(config, field).filter(|&n| n < 0) {
            errors.push(format!("spec.kubelet.{field}: {number} can't be negative"));
        }
    }
    if let (Some(high), Some(low)) = (integer(config, GC_HIGH), integer(config, GC_LOW))
        && high <= low
    {
        errors.push(format!(
            "spec.kubelet: {GC_HIGH} ({high}) must be greater than {GC_LOW} ({low})"
        ));
    }
}

/// The map of strings under `field`, empty if there is none, sorted by key.
fn texts(config: &Map<String, Value>, field: &str) -> BTreeMap<String, String> {
    config.get(field).and_then(text_map).unwrap_or_default()
}

fn integer(config: &Map<String, Value>, field: &str) -> Option<i64> {
    config.get(field)?.as_i64()
}
