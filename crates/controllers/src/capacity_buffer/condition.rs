//! Conditions of CapacityBuffers. They are not ours alone, so there is no condition engine: each is
//! set by itself, and its time moves only with its status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The new status, reason and message of a condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionUpdate<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Sets a condition.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    update: &ConditionUpdate<'_>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = if update.status { "True" } else { "False" };
    let known = conditions.iter_mut().find(|condition| condition.type_ == update.type_);
    let since = match &known {
        Some(known) if known.status == status => known.last_transition_time.clone(),
        _ => Time(now),
    };
    let condition = Condition {
        type_: update.type_.to_owned(),
        status: status.to_owned(),
        reason: update.reason.to_owned(),
        message: update.message.to_owned(),
        observed_generation: generation,
        last_transition_time: since,
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_transition_time_changes_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        let mut put = |status, message, second| {
            let update = ConditionUpdate { type_: "Provisioning", status, reason: "R", message };
            set(&mut conditions, &update, Some(second), at(second));
            let [condition] = conditions.as_slice() else { panic!("one condition") };
            (condition.last_transition_time.0, condition.message.clone())
        };
        assert_eq!(put(true, "a", 1), (at(1), "a".to_owned()));
        assert_eq!(put(true, "b", 2), (at(1), "b".to_owned()));
        assert_eq!(put(false, "b", 3), (at(3), "b".to_owned()));
    }
}
